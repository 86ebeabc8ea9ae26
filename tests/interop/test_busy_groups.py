"""Groups of librdkafka's consumers that grow and shrink on three busy brokers: every rebalance ends soon.

KLAMM_GROUP_ROUNDS=20 lets them grow and shrink for longer.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from faults.folder_cluster import FolderCluster
from klamm.client.admin.admin import Admin
from klamm.testing import wait_until

TOPIC: Final = "orders"
PARTITIONS: Final = 24
GROUPS: Final = ("north", "south", "west")
MEMBERS: Final = 5
CHANGES: Final = 6 * int(os.environ.get("KLAMM_GROUP_ROUNDS", "1"))
# Nobody takes a broker for stuck on a busy machine.
SETTINGS: Final = {
    "broker.heartbeat.interval.ms": "1000",
    "klamm.broker.serve.window.ms": "20000",
    "broker.session.timeout.ms": "60000",
}


class Member:
    """A consumer on a thread of its own."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.assigned: set[int] = set()
        self.errors: list[KafkaError] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "partition.assignment.strategy": "cooperative-sticky",
                # One that is closed while it waits for the others says no goodbye: it is waited for.
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 300,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([TOPIC])
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and (error := message.error()) is not None:
                self.errors.append(error)
            self.assigned = {each.partition for each in self._consumer.assignment()}
        self._consumer.close()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


class Business:
    """Records to all partitions, and topics that are created and deleted, all the while."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._is_over = threading.Event()
        self.topics = 0
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._write, self._create)]
        for thread in self._threads:
            thread.start()

    def _write(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 2, "log_level": 0})
        while not self._is_over.wait(0.02):
            for partition in range(PARTITIONS):
                producer.produce(TOPIC, bytes(200), partition=partition)
            producer.poll(0)
        producer.flush(60)

    def _create(self) -> None:
        with Admin({"bootstrap.servers": self._bootstrap}) as admin:
            for number in itertools.count():
                if self._is_over.wait(0.2):
                    return
                admin.create_topics({f"other-{number}": 6})
                self.topics += 1
                if number % 3 == 2:
                    admin.delete_topics([f"other-{number - 1}"])

    def end(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive()


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    cluster = FolderCluster(tmp_path, settings=SETTINGS)
    try:
        with Admin({"bootstrap.servers": cluster.bootstrap}) as admin:
            admin.create_topics({TOPIC: PARTITIONS})
        yield cluster.bootstrap
    finally:
        cluster.close()


def shares_all(members: list[Member]) -> bool:
    return sorted(number for each in members for number in each.assigned) == list(range(PARTITIONS))


def test_every_rebalance_of_many_members_ends_soon_while_brokers_are_busy(bootstrap: str) -> None:
    random = Random(7)
    business = Business(bootstrap)
    groups = {group: [Member(bootstrap, group) for _ in range(MEMBERS)] for group in GROUPS}
    errors: list[KafkaError] = []
    for change in range(CHANGES):
        # As long as a session, and some time for a busy machine: far below that of a join that is lost.
        for members in groups.values():
            wait_until(lambda members=members: shares_all(members), "40s")  # type: ignore[misc]  # bound now
        for group, members in groups.items():
            if change % 2:
                leaving = members.pop(random.randrange(len(members)))
                leaving.stop()
                errors += leaving.errors
            else:
                members.append(Member(bootstrap, group))
    for members in groups.values():
        wait_until(lambda members=members: shares_all(members), "40s")  # type: ignore[misc]  # bound now
        for member in members:
            member.stop()
            errors += member.errors
    business.end()
    assert business.topics > CHANGES
    assert [error for error in errors if error.code() != KafkaError._PARTITION_EOF] == []
