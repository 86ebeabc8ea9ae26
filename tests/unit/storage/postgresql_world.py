"""A log store on PostgreSQL that tests use: it leads what it opens, and loads what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from klamm.clock import ManualClock
from klamm.storage.cluster import BrokerRegistration, PartitionRegistration, TopicState
from klamm.storage.engines.postgresql.cluster import PostgresCluster
from klamm.storage.engines.postgresql.log import PostgresLog
from klamm.storage.engines.postgresql.store import PostgresLogStore
from klamm.storage.topic_config import TopicConfig
from postgresql import PostgresServer
from unit.storage.log_samples import (
    TOPIC_ID,
    T,
    loaded,
)


class Loading:
    """A log or a store whose methods load what they need."""

    def __init__(self, target: Any) -> None:
        object.__setattr__(self, "target", target)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.target, name)
        if not callable(value) or name.startswith("on_"):
            return value
        return lambda *arguments, **keywords: loaded(lambda: value(*arguments, **keywords))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.target, name, value)


class TestingStore(PostgresLogStore):
    """Creates topics and raises epochs when logs are opened: cluster stores do that for brokers."""

    __test__ = False

    def open(self, topic: str, topic_id: bytes, partition: int, **options: Any) -> Any:
        self.lead(topic, topic_id, partition, options["leader_epoch"])
        return Loading(loaded(lambda: PostgresLogStore.open(self, topic, topic_id, partition, **options)))

    def lead(self, topic: str, topic_id: bytes, partition: int, leader_epoch: int) -> None:
        cluster = self._cluster
        if topic not in cluster.topics():
            states = [PartitionRegistration(each, (1,), 1, 0) for each in range(partition + 1)]
            cluster.create_topic(TopicState(topic, topic_id, tuple(states)), {})
        while cluster.topics()[topic].partitions[partition].leader_epoch < leader_epoch:
            cluster.raise_epochs(
                {self.id_of(topic, partition): cluster.topics()[topic].partitions[partition].leader_epoch}
            )

    def id_of(self, topic: str, partition: int) -> int:
        with self._reading[0].use() as connection:
            row = connection.execute(
                "SELECT partition_id FROM partition JOIN topic USING (topic_id) "
                "WHERE name = %s AND partition = %s",
                [topic, partition],
            ).fetchone()
        assert row is not None
        return int(row[0])

    def delete(self, topic: str, partition: int) -> None:
        super().delete(topic, partition)
        state = self._cluster.topics()[topic]
        self._cluster.delete_topic(topic, state.topic_id)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with self._reading[0].use() as connection:
            return connection.execute(statement).fetchall()


@pytest.fixture
def cluster(postgres: PostgresServer) -> Iterator[PostgresCluster]:
    cluster = PostgresCluster(postgres.new_schema(), random=Random(1))
    cluster.register(BrokerRegistration(1, None, {}))
    yield cluster
    cluster.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(timestamp_ms=T)


@pytest.fixture
def store(cluster: PostgresCluster, clock: ManualClock) -> Iterator[TestingStore]:
    """Little of what is durable stays in memory: reads begin in rows and end there."""
    store = TestingStore(cluster, clock=clock, tail_bytes=300)
    yield store
    store.close()


@pytest.fixture
def other(cluster: PostgresCluster, clock: ManualClock) -> Iterator[TestingStore]:
    """The store of another process on the same database."""
    other = TestingStore(cluster, clock=clock)
    yield other
    other.close()


def bare(log: Any) -> PostgresLog:
    assert isinstance(log.target, PostgresLog)
    return log.target


def open_log(store: TestingStore, leader_epoch: int = 0, partition: int = 0) -> Any:
    return store.open("t", TOPIC_ID, partition, leader_epoch=leader_epoch, config=TopicConfig())
