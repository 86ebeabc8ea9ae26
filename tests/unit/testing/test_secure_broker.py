"""The secured broker of the test kit: users, rights, and time on certificates and sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import klamm
from klamm.errors import (
    ClusterAuthorizationFailedError,
    SaslAuthenticationError,
    SslAuthenticationError,
    TopicAuthorizationError,
)
from klamm.testing import SecureBroker


@pytest.fixture
def broker() -> Iterator[SecureBroker]:
    with SecureBroker() as broker:
        broker.create_topic("orders")
        yield broker


def send(settings: dict[str, Any]) -> None:
    with klamm.Producer(settings) as producer:
        producer.send("orders", b"x").result(30)


def test_a_user_may_do_what_it_is_allowed_and_nothing_else(broker: SecureBroker) -> None:
    alice, bob = broker.client("alice"), broker.client("bob")
    broker.allow("alice", "write", "read", topic="orders")
    broker.allow("alice", "read", group="billing")
    send(alice)
    with pytest.raises(TopicAuthorizationError):
        send(bob)
    with klamm.Consumer(alice, group_id="billing", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        assert [record.value for record in consumer.consume(1, timeout=30)] == [b"x"]
        consumer.commit()
    assert broker.group("billing").total_lag == 0
    assert [record.value for record in broker.records("orders")] == [b"x"]
    broker.deny("alice", "write", topic="ord", prefixed=True)
    # As in Kafka: who may write to no topic gets no producer id.
    with pytest.raises(ClusterAuthorizationFailedError):
        send(alice)


def test_a_revoked_user_is_disconnected_and_cannot_come_back(broker: SecureBroker) -> None:
    alice = broker.client("alice")
    broker.allow("alice", "write", topic="orders")
    with klamm.Producer(alice) as producer:
        producer.send("orders", b"x").result(30)
        broker.revoke("alice")
        with pytest.raises(SaslAuthenticationError, match="check the"):
            producer.send("orders", b"y").result(30)
    with pytest.raises(SaslAuthenticationError, match="SCRAM-SHA-512: user alice"):
        send(alice)


def test_a_certificate_expires_on_the_brokers_clock(broker: SecureBroker) -> None:
    alice = broker.client("alice")
    broker.allow("alice", "write", topic="orders")
    broker.expire_certificate(after="30d")
    with klamm.Producer(alice) as producer:
        producer.send("orders", b"x").result(30)
        broker.clock.advance("29d")
        send(alice)
        broker.clock.advance("1d")
        with pytest.raises(SslAuthenticationError, match="certificate has expired"):
            send(alice)
        broker.renew_certificate()
        send(alice)


def test_a_client_with_a_certificate_is_who_it_says_unless_it_has_expired(broker: SecureBroker) -> None:
    broker.allow("etl", "write", topic="orders")
    send(broker.client_with_certificate("etl"))
    with pytest.raises(SslAuthenticationError, match="it has expired"):
        send(broker.client_with_certificate("etl", has_expired=True))


def test_a_session_ends_on_the_brokers_clock_and_is_renewed_unless_the_user_is_revoked() -> None:
    settings = {"connections.max.reauth.ms": 60_000, "klamm.scram.close.on.delete": False}
    with SecureBroker(settings) as broker:
        broker.create_topic("orders")
        alice = broker.client("alice")
        broker.allow("alice", "write", topic="orders")
        with klamm.Producer(alice) as producer:
            producer.send("orders", b"x").result(30)
            broker.clock.advance("50s")
            producer.send("orders", b"x").result(30)
            broker.revoke("alice")
            producer.send("orders", b"x").result(30)  # the session goes on
            broker.clock.advance("70s")
            with pytest.raises(SaslAuthenticationError):
                producer.send("orders", b"x").result(30)


def test_it_is_as_it_was_after_a_restart(broker: SecureBroker) -> None:
    alice = broker.client("alice")
    broker.allow("alice", "write", topic="orders")
    broker.restart()
    send(alice)
    assert len(broker.records("orders")) == 1


def test_rights_without_a_resource_are_refused(broker: SecureBroker) -> None:
    with pytest.raises(TypeError, match="one resource"):
        broker.allow("alice", "read")
