"""The whole broker, over real sockets, on time that the test moves."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import klamm
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.testing.wire import request_bytes


@pytest.fixture
def broker() -> Iterator[klamm.Broker]:
    with klamm.Broker(clock="virtual") as broker:
        yield broker


def a_consumer(broker: klamm.Broker, group: str = "g", **settings: Any) -> klamm.Consumer[bytes, bytes]:
    return klamm.Consumer(
        "t", bootstrap_servers=broker.bootstrap, group_id=group, auto_offset_reset="earliest", **settings
    )


def send(broker: klamm.Broker, *values: str) -> None:
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for value in values:
            producer.send("t", value)


def read(consumer: klamm.Consumer[bytes, bytes], count: int) -> list[str]:
    return [record.value.decode() for record in consumer.consume(count, timeout=30)]


def test_a_broker_on_the_systems_clock_refuses_to_move_it() -> None:
    with klamm.Broker() as broker, pytest.raises(RuntimeError, match=r'klamm.Broker\(clock="virtual"\)'):
        broker.clock.advance("1s")


def test_an_unknown_clock_is_refused() -> None:
    with pytest.raises(ValueError, match='expected "virtual" or "system"'):
        klamm.Broker(clock="manual")  # type: ignore[arg-type]  # what the test is about


def test_records_carry_the_virtual_time(broker: klamm.Broker) -> None:
    send(broker, "before")
    broker.clock.advance("3d")
    send(broker, "after")
    with a_consumer(broker) as consumer:
        before, after = consumer.consume(2, timeout=30)
    assert after.timestamp_ms - before.timestamp_ms >= 3 * 86_400_000


def test_a_silent_member_loses_its_session_when_its_time_comes(broker: klamm.Broker) -> None:
    with a_consumer(broker, "another") as consumer:
        consumer.committed([klamm.TopicPartition("t", 0)])  # the coordinator is there
    with klamm.Admin(bootstrap_servers=broker.bootstrap) as admin, broker.clock.frozen():
        silent = socket.create_connection(("127.0.0.1", int(broker.bootstrap.rpartition(":")[2])))
        silent.sendall(
            request_bytes(
                ApiKey.JOIN_GROUP,
                3,
                JoinGroupRequest(
                    group_id="g",
                    session_timeout_ms=45_000,
                    rebalance_timeout_ms=60_000,
                    protocol_type="consumer",
                    protocols=[JoinGroupRequestProtocol("range", b"")],
                ),
                correlation_id=1,
                client_id="silent",
            )
        )
        assert silent.recv(4)  # it is a member
        broker.clock.advance("44s")
        assert len(admin.describe_groups(["g"])["g"].members) == 1
        broker.clock.advance("2s")
        assert admin.describe_groups(["g"])["g"].state == "Empty"
        silent.close()


def test_members_of_klamm_heartbeat_while_time_is_moved_and_stay(broker: klamm.Broker) -> None:
    send(broker, "x")
    with (
        a_consumer(broker, max_poll_interval_ms=2**31 - 1, heartbeat_interval_ms=15_000) as consumer,
        klamm.Admin(bootstrap_servers=broker.bootstrap) as admin,
    ):
        assert read(consumer, 1) == ["x"]
        (member,) = admin.describe_groups(["g"])["g"].members
        broker.clock.advance("1h")
        assert [each.member_id for each in admin.describe_groups(["g"])["g"].members] == [member.member_id]


def test_a_consumer_that_does_not_poll_leaves_its_group(broker: klamm.Broker) -> None:
    send(broker, "x")
    with a_consumer(broker) as consumer, klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
        assert read(consumer, 1) == ["x"]
        broker.clock.advance("6m")  # max.poll.interval.ms is five
        assert admin.describe_groups(["g"])["g"].members == ()


def test_retention_deletes_what_nobody_read(broker: klamm.Broker) -> None:
    with klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([klamm.NewTopic("t", config={"retention.ms": "3600000"})])
        send(broker, "old")
        broker.clock.advance("1h10m")
        send(broker, "new")
        with a_consumer(broker) as consumer:
            assert read(consumer, 1) == ["new"]


def test_offsets_of_an_empty_group_expire(broker: klamm.Broker) -> None:
    send(broker, "x")
    with a_consumer(broker) as consumer:
        read(consumer, 1)
        consumer.commit()
    for days, is_there in ((6, True), (2, False)):
        broker.clock.advance(timedelta(days=days))
        with klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
            assert bool(admin.list_group_offsets("g")) is is_there


def test_an_abandoned_transaction_is_aborted(broker: klamm.Broker) -> None:
    with klamm.Producer(
        bootstrap_servers=broker.bootstrap, transactional_id="tx", transaction_timeout_ms=60_000
    ) as abandoned:
        abandoned.init_transactions()
        abandoned.begin_transaction()
        abandoned.send("t", "never").result()
        broker.clock.advance("61s")
        broker.clock.advance("10s")  # the coordinator looks every ten seconds
        send(broker, "later")
        with a_consumer(broker, isolation_level="read_committed") as consumer:
            assert read(consumer, 1) == ["later"]
        with pytest.raises(klamm.KlammError):
            abandoned.commit_transaction()


def test_a_poll_of_the_thread_that_stopped_the_clock_needs_no_real_time(broker: klamm.Broker) -> None:
    send(broker, "x")
    with a_consumer(broker) as consumer:
        read(consumer, 1)
        with broker.clock.frozen():
            before = broker.clock.now()
            assert not consumer.poll(60)
            assert broker.clock.now() - before == timedelta(minutes=1)


def test_a_worker_is_followed_while_the_test_moves_the_clock(broker: klamm.Broker) -> None:
    seen: list[str] = []
    started, stop = threading.Event(), threading.Event()

    def work() -> None:
        with a_consumer(broker, enable_auto_commit=False) as consumer:
            consumer.poll(0)
            started.set()
            while not stop.is_set():
                for record in consumer.poll(1.0):
                    seen.append(record.value.decode())
                    consumer.commit()

    worker = threading.Thread(target=work)
    worker.start()
    started.wait()
    try:
        send(broker, "a", "b")
        broker.clock.advance("10s")
        assert seen == ["a", "b"]
    finally:
        stop.set()
        worker.join()


def test_a_stopped_clock_does_not_keep_the_broker_from_stopping() -> None:
    with klamm.Broker(clock="virtual") as broker, a_consumer(broker) as consumer:
        consumer.poll(0)
        broker.clock.freeze()
        address = ("127.0.0.1", int(broker.bootstrap.rpartition(":")[2]))
        broker.stop()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=10)


def test_a_connection_that_is_accepted_while_the_broker_stops_is_closed() -> None:
    for _ in range(3):
        broker = klamm.Broker(clock="virtual").start()
        address = ("127.0.0.1", int(broker.bootstrap.rpartition(":")[2]))
        clients = [socket.create_connection(address) for _ in range(3)]
        broker.stop()
        for client in clients:
            client.settimeout(10)
            assert client.recv(1) == b""
            client.close()
