"""Kafka's own kafka-acls and kafka-configs set users, rights and quotas of klamm over SASL_SSL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import klamm
from interop.kafka_tools import run_kafka_tool
from klamm.access.acls import Acl
from klamm.client.admin.access_model import QuotaEntity
from klamm.errors import TopicAuthorizationError
from klamm.testing import SecureBroker


@pytest.fixture
def broker() -> Iterator[SecureBroker]:
    with SecureBroker(clock="system") as broker:
        broker.create_topic("orders")
        yield broker


def tool(broker: SecureBroker, folder: Path, name: str, *arguments: str) -> str:
    settings, file = broker._own_settings(), folder / "admin.properties"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    user, password = settings["sasl.username"], settings["sasl.password"]
    ca = settings["ssl.ca.pem"].replace("\n", "\\n")
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={module} required username="{user}" password="{password}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.certificates={ca}\n"
    )
    done = run_kafka_tool(
        name, "--bootstrap-server", broker.bootstrap, "--command-config", str(file), *arguments
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_kafka_acls_adds_lists_and_removes(broker: SecureBroker, tmp_path: Path) -> None:
    alice = broker.client("alice")
    on_orders = ("--allow-principal", "User:alice", "--operation", "Write", "--topic", "orders")
    tool(broker, tmp_path, "AclCommand", "--add", *on_orders)
    listed = tool(broker, tmp_path, "AclCommand", "--list", "--topic", "orders")
    assert "(principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW)" in listed
    with klamm.Producer(alice, enable_idempotence=False) as producer:
        producer.send("orders", b"x").result(30)
        tool(broker, tmp_path, "AclCommand", "--remove", "--force", *on_orders)
        with pytest.raises(TopicAuthorizationError):  # on the connection that was open
            producer.send("orders", b"x").result(30)
    with broker._an_admin() as admin:
        assert admin.describe_acls(Acl.of("User:alice", "write", "topic", "orders")) == []


def test_kafka_configs_sets_users_and_quotas(broker: SecureBroker, tmp_path: Path) -> None:
    of_alice = ("--alter", "--entity-type", "users", "--entity-name", "alice", "--add-config")
    tool(broker, tmp_path, "kafka.admin.ConfigCommand", *of_alice, "SCRAM-SHA-512=[password=by-kafka]")
    tool(broker, tmp_path, "kafka.admin.ConfigCommand", *of_alice, "producer_byte_rate=100000")
    broker.allow("alice", "write", topic="orders")
    settings = {**broker._own_settings(), "sasl.username": "alice", "sasl.password": "by-kafka"}
    with klamm.Producer({**settings, "sasl.mechanism": "SCRAM-SHA-512"}) as producer:
        producer.send("orders", b"x").result(30)
    with broker._an_admin() as admin:
        quotas = admin.describe_quotas()
    assert quotas[QuotaEntity(user="alice")] == {"producer_byte_rate": 100000.0}
    shown = tool(broker, tmp_path, "kafka.admin.ConfigCommand", "--describe", "--entity-type", "users")
    assert "producer_byte_rate=100000.0" in shown
    assert "SCRAM-SHA-512=iterations=" in shown
    assert "by-kafka" not in shown
