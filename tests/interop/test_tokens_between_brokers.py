"""Brokers that log in to each other with tokens of a token endpoint, and the clients of such a cluster."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import klamm
from interop.kafka_tools import free_port
from interop.processes import ROOT, LineProcess
from interop.secured_kafka import USER, unsecured_token
from klamm import NewTopic, TopicPartition

SECRET = "secret-of-the-brokers"
PARTITIONS = 4
LIFETIME_S = 3


class Endpoint(ThreadingHTTPServer):
    """A token endpoint, for brokers and clients."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked = 0
        self.url = f"http://127.0.0.1:{self.server_port}/token"


class Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked += 1
        token = {"access_token": unsecured_token(LIFETIME_S), "expires_in": LIFETIME_S}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(token).encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        del format, args


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_brokers_log_in_to_each_other_with_tokens_and_again_before_they_expire(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    port, log = free_port(), tmp_path / "log"
    login = {
        "sasl.oauthbearer.token.endpoint.url": endpoint.url,
        "sasl.oauthbearer.client.credentials.client.id": "brokers",
    }
    settings = {
        **login,
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "klamm.oauthbearer.unsecured": "true",
        "sasl.oauthbearer.client.credentials.client.secret": "${env:BROKERS_SECRET}",
        "klamm.authorizer": "acl",
        "super.users": f"User:{USER}",
        "log.dirs": str(tmp_path / "data"),
    }
    file = tmp_path / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    command = [sys.executable, "-m", "klamm.cli", "up", "--config", str(file), "--brokers", "2"]
    environment = {"PYTHONPATH": str(ROOT / "src"), "BROKERS_SECRET": SECRET}
    process = LineProcess(command, stderr_path=log, environment=environment)
    try:
        for _ in range(2):
            process.read_line(60)
        client = {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            **login,
            "sasl.oauthbearer.client.credentials.client.secret": SECRET,
        }
        with klamm.Admin(client) as admin:
            admin.create_topics(NewTopic("t", PARTITIONS))
            leaders = {each.leader_id for each in admin.describe_topics(["t"]).unwrap()["t"].partitions}
        assert len(leaders) == 2
        with klamm.Producer(client, transactional_id="x") as producer:
            producer.init_transactions()
            until = time.monotonic() + 2.5 * LIFETIME_S
            count = 0
            while time.monotonic() < until:
                with producer.transaction():  # its markers go from one broker to the other
                    for number in range(PARTITIONS):
                        producer.send("t", b"x", partition=number)
                count += 1
        partitions = [TopicPartition("t", number) for number in range(PARTITIONS)]
        with klamm.Consumer(client, enable_auto_commit=False) as consumer:
            ends = consumer.end_offsets(partitions)
        assert all(end == 2 * count for end in ends.values())  # with a marker each
        assert endpoint.asked > 3 * 2
        assert SECRET not in log.read_text()
    finally:
        process.terminate()
