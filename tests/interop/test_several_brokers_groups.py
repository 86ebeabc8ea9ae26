"""Consumer groups on three brokers that are restarted one by one, and killed: their users see nothing of it.

KLAMM_GROUP_ROUNDS=20 restarts and kills them for longer.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from faults.folder_cluster import FolderCluster
from faults.postgresql_cluster import PostgresBrokers
from interop.groups import Watch, group_on
from interop.stores import STORES, three_brokers
from klamm import Consumer, Producer, TopicPartition
from klamm.client.admin.admin import Admin
from klamm.client.producer.delivery import Delivery

NAMES: Final = ("klamm", "confluent", "java", "franz-go")
TOPIC: Final = "orders"
PARTITIONS: Final = 6
# What franz-go reports when the coordinator was killed: it goes on by itself.
NOTICES: Final = ("unable to join group session: ", "unable to dial: ")
ROUNDS: Final = int(os.environ.get("KLAMM_GROUP_ROUNDS", "1"))


@pytest.fixture(params=STORES)
def brokers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FolderCluster | PostgresBrokers]:
    with three_brokers(request.param, tmp_path) as cluster:
        with Admin({"bootstrap.servers": cluster.bootstrap}) as admin:
            admin.create_topics({TOPIC: PARTITIONS})
        yield cluster


class Orders:
    """Records to every partition, all the while."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._is_over = threading.Event()
        self._sent: list[Delivery] = []
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        with Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 5}) as producer:
            while not self._is_over.wait(0.1):  # some readers commit each record by itself
                for partition in range(PARTITIONS):
                    self._sent.append(producer.send(TOPIC, b"order", partition=partition))
            producer.flush(100)

    def end(self) -> set[tuple[int, int]]:
        """Stop; where everything was written."""
        self._is_over.set()
        self._thread.join(120)
        places = [delivery.result(0) for delivery in self._sent]
        return {(place.partition, place.offset) for place in places}


class CommittedOffsets:
    """Watches what a group has committed: it must not go back."""

    def __init__(self, bootstrap: str, groups: list[str]) -> None:
        self.went_back: list[str] = []
        self.looks = 0
        self._is_over = threading.Event()
        self._partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        self._highest = {group: dict.fromkeys(self._partitions, 0) for group in groups}
        self._thread = threading.Thread(target=self._look, args=(bootstrap,), daemon=True)
        self._thread.start()

    def _look(self, bootstrap: str) -> None:
        consumers = {
            group: Consumer({"bootstrap.servers": bootstrap, "group.id": group}) for group in self._highest
        }
        is_last = False
        while not is_last:
            is_last = self._is_over.wait(0.02)
            for group, consumer in consumers.items():
                self._compare(group, self._highest[group], consumer)
        for consumer in consumers.values():
            consumer.close()

    def _compare(self, group: str, highest: dict[TopicPartition, int], consumer: Consumer) -> None:
        for partition, found in consumer.committed(self._partitions).items():
            offset = 0 if found is None else found.offset
            if offset < highest[partition]:
                self.went_back.append(f"{group} {partition}: {highest[partition]}, then {offset}")
            highest[partition] = offset
        self.looks += 1

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join(60)

    def end(self) -> dict[str, dict[int, int]]:
        """Look once more, and stop; the last offsets that were seen, by group and partition."""
        self.stop()
        assert not self._thread.is_alive()
        return {
            group: {partition.partition: offset for partition, offset in highest.items()}
            for group, highest in self._highest.items()
        }


class Readers:
    """A group of two members of one library."""

    def __init__(self, name: str, watch: Watch) -> None:
        self.name = name
        self.group = f"{name}-readers"
        self._watch = watch
        # Sessions outlast the pauses of a busy machine: who is removed was removed by a fault.
        self._members = [watch.join(name, session_timeout_ms=20_000) for _ in range(2)]

    def settle(self) -> list[int]:
        self._watch.settle(self._members, PARTITIONS)
        return self._assignments()

    def _assignments(self) -> list[int]:
        return [member.assignments for member in self._members]

    def check(self, written: set[tuple[int, int]], assignments: list[int]) -> None:
        """Every record was read once, and the group has not noticed anything."""
        self._check_records(written, assignments)
        assert self._errors() == []

    def check_after_a_crash(self, written: set[tuple[int, int]], assignments: list[int]) -> None:
        """As `check`; franz-go reports that it cannot reach the killed coordinator, and joins again."""
        if self.name == "franz-go":
            self._watch.wait_for_records(written)
            assert [each for each in self._errors() if not any(notice in each for notice in NOTICES)] == []
        else:
            self.check(written, assignments)

    def _check_records(self, written: set[tuple[int, int]], assignments: list[int]) -> None:
        self._watch.wait_for_records(written)
        assert self._watch.times_read() == dict.fromkeys(written, 1), self.name
        assert self._assignments() == assignments, self.name

    def _errors(self) -> list[str]:
        return [error for member in self._members for error in member.errors]

    def stop(self) -> None:
        for member in self._members:
            member.stop()


@pytest.mark.timeout(300)
def test_groups_go_on_without_an_error_a_rebalance_or_a_repetition(
    brokers: FolderCluster | PostgresBrokers, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        readers = [
            Readers(
                name,
                stack.enter_context(group_on(brokers.bootstrap, TOPIC, tmp_path, f"{name}-readers")),
            )
            for name in NAMES
        ]
        assignments = {each.name: each.settle() for each in readers}
        committed = CommittedOffsets(brokers.bootstrap, [each.group for each in readers])
        stack.callback(committed.stop)  # while there are brokers to be asked, also if the test fails

        # A rolling restart
        orders = Orders(brokers.bootstrap)
        for broker_id in (1, 2, 3) * ROUNDS:
            brokers.stop(broker_id)
            brokers.start(broker_id)
        written = orders.end()
        for each in readers:
            each.check(written, assignments[each.name])

        # Crashes
        orders = Orders(brokers.bootstrap)
        for broker_id in (1, 2, 3) * ROUNDS:
            brokers.kill(broker_id)
            brokers.start(broker_id)
        written |= orders.end()
        for each in readers:
            each.check_after_a_crash(written, assignments[each.name])
            each.stop()
        offsets = committed.end()
    assert committed.went_back == []
    ends = dict(Counter(partition for partition, _ in written))
    assert offsets == {each.group: ends for each in readers}
