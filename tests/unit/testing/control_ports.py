"""Control ports of brokers, and clients of them, for tests."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import klamm
from klamm.broker.net.listeners import Listener
from klamm.clock import SystemClock, clients_on
from klamm.testing import Broker
from klamm.testing.control_http import ControlServer


class Port:
    """A control port, and one connection to it that is kept."""

    def __init__(self, broker: Broker, address: str) -> None:
        self.broker = broker
        self.host, _, port = address.rpartition(":")
        self.port = int(port)
        self.connection = http.client.HTTPConnection(self.host, self.port, timeout=60)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        self.connection.request(method, path, data, headers)
        with self.connection.getresponse() as response:
            assert response.headers["Content-Type"] == "application/json; charset=utf-8"
            return response.status, json.loads(response.read())

    def done(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = self.ask(method, path, body)
        assert status in (200, 201), answer
        return answer

    def refused(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        status, answer = self.ask(method, path, body)
        assert set(answer) == {"error"}
        # The port and the broker work as before, on the same connection.
        assert self.done("GET", "/clock")["rate"] == 1.0
        return status, answer["error"]

    def raw(self, request: bytes) -> bytes:
        """What is answered to bytes until the connection is closed."""
        with socket.create_connection((self.host, self.port), timeout=60) as client:
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: client.recv(65536), b""))


@contextmanager
def port_of(broker: Broker) -> Iterator[Port]:
    with ControlServer(broker, Listener("CONTROL", "127.0.0.1", 0)) as server, broker:
        server.start()
        port = Port(broker, server.address)
        yield port
        port.connection.close()


@pytest.fixture
def port() -> Iterator[Port]:
    with port_of(Broker(auto_create_topics_enable=False)) as port:
        yield port


@pytest.fixture(scope="module")
def shared_port() -> Iterator[Port]:
    """For requests that are refused: the broker is as before."""
    with port_of(Broker(auto_create_topics_enable=False)) as port:
        yield port


def a_member(broker: Broker, **settings: Any) -> klamm.Consumer:
    # On real time, as a client in another process: its heartbeats do not follow the broker's clock.
    with clients_on(SystemClock()):
        return klamm.Consumer(
            "t", bootstrap_servers=broker.bootstrap, group_id="g", client_id="m", **settings
        )


def joined(port: Port, member: klamm.Consumer) -> None:
    while port.done("GET", "/groups/g")["state"] != "Stable":
        member.poll(0.1)
