"""A broker on PostgreSQL never waits for the database on its event loop: all clients would wait with it."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from psycopg import Connection

from klamm import Consumer, Producer, TopicPartition
from klamm.broker.embedded import Broker
from klamm.client.admin.admin import Admin
from klamm.clock import SystemClock
from klamm.storage.engines.postgresql.connection import Session
from postgresql import PostgresServer


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def used_on_a_loop(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where a session was used by a thread whose event loop runs."""
    found: list[str] = []
    use = Session.use

    @contextmanager
    def watched(self: Session) -> Iterator[Connection[Any]]:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass  # a worker thread
        else:
            found.append("".join(traceback.format_stack(limit=8)))
        with use(self) as connection:
            yield connection

    monkeypatch.setattr(Session, "use", watched)
    return found


def test_no_request_waits_for_the_database_on_the_event_loop(
    postgres: PostgresServer, used_on_a_loop: list[str]
) -> None:
    settings: dict[str, str | int] = {
        "klamm.store": postgres.new_schema(),
        "log.retention.check.interval.ms": 20,
        "log.flush.offset.checkpoint.interval.ms": 20,
        "offsets.topic.num.partitions": 2,
        "transaction.state.log.num.partitions": 2,
        "group.initial.rebalance.delay.ms": 0,
    }
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    now_ms = SystemClock().timestamp_ms()
    with Broker(settings=settings) as broker:
        used_on_a_loop.clear()  # nobody is served while the store is opened
        client = {"bootstrap.servers": broker.bootstrap}
        with Admin(client) as admin, Producer(client) as producer:
            admin.create_topics({"t": 1})
            for number in range(60):  # more than stays in memory
                producer.send("t", bytes(50_000), partition=0, timestamp_ms=now_ms + number)
            producer.flush()
            admin.create_partitions({"t": 2})
            admin.alter_configs("topic", "t", {"retention.ms": "-1"})
        with Producer({**client, "transactional.id": "x"}) as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send("t", b"in a transaction", partition=1)
        reader = {**client, "group.id": "g", "auto.offset.reset": "earliest"}
        with Consumer(reader) as consumer:
            consumer.subscribe(["t"])
            seen = 0
            while seen < 61:
                seen += len(consumer.poll(5))
            consumer.commit()
            assert consumer.offsets_for_times({first: now_ms + 30})
            assert consumer.end_offsets([first, second])
        with Admin(client) as admin:
            admin.delete_records({first: 10})
            assert admin.list_group_offsets("g")
            admin.describe_log_dirs()
            admin.delete_topics(["t"])
        on_loop = list(used_on_a_loop)
    assert on_loop == []
