"""klamm's own clients at work on one cluster, and what the tests ask of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from klamm import Admin, Consumer, Producer, TopicPartition
from klamm.client.admin.model import NewTopic
from klamm.client.consumer.records import ConsumerRecord

PATIENCE_S = 30


class Own:
    """Makes clients of one cluster, and closes them all in the end, last made first."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._stack = ExitStack()
        self._admin: Admin | None = None

    @property
    def admin(self) -> Admin:
        if self._admin is None:
            self._admin = self._stack.enter_context(Admin(bootstrap_servers=self.bootstrap))
        return self._admin

    def producer(self, **settings: Any) -> Producer:
        return self._stack.enter_context(Producer({"bootstrap.servers": self.bootstrap, **settings}))

    def consumer(self, *topics: str, **settings: Any) -> Consumer:
        """A consumer that begins at the beginning and commits when told, unless it is said otherwise."""
        usual: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 300,
            "session.timeout.ms": 10_000,
        }
        named = {name.replace("_", "."): value for name, value in settings.items()}
        return self._stack.enter_context(Consumer(*topics, usual | named))

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> list[TopicPartition]:
        """Create a topic and wait until it can be used; its partitions."""
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        self.admin.create_topics([NewTopic(name, partitions, 1, dotted)]).unwrap()
        self.admin.wait_for_topics([name])
        return [TopicPartition(name, number) for number in range(partitions)]

    def fill(self, partitions: Iterable[TopicPartition], each: int, start: int = 0) -> None:
        """Write the numbers from `start` on to every partition."""
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            for partition in partitions:
                for number in range(start, start + each):
                    producer.send(partition.topic, b"%d" % number, partition=partition.partition)
            producer.flush(PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """The next `count` records; fewer only when the time is up."""
    records: list[ConsumerRecord] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(records) < count and time.monotonic() < deadline:
        records += consumer.poll(0.5, max_records=count - len(records))
    return records


def poll_until(consumer: Consumer, what: Callable[[], bool], waiting_for: str) -> list[ConsumerRecord]:
    """Poll until it is so; what came meanwhile."""
    records: list[ConsumerRecord] = []
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline, f"waited for {waiting_for}; {consumer.health()}"
        records += consumer.poll(0.05)
    return records


def values(records: Iterable[ConsumerRecord]) -> list[Any]:
    return [record.value for record in records]
