"""Broker processes on one data folder, and a load that remembers what it was promised."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from interop.kafka_tools import free_port
from interop.processes import KlammProcess
from klamm import Consumer, Producer, TopicPartition
from klamm.client.admin.admin import Admin
from klamm.client.producer.delivery import Delivery
from klamm.errors import KlammError, UnknownTopicOrPartitionError

TOPIC: Final = "numbers"
PAIRS: Final = "pairs"  # every number in two partitions, in one transaction
PARTITIONS: Final = 6
# Leases that end quickly: a process that is stopped is found within the test.
QUICK_LEASES: Final = {
    "broker.heartbeat.interval.ms": "100",
    "klamm.broker.serve.window.ms": "300",
    "broker.session.timeout.ms": "1500",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "12",
}


class FolderCluster:
    """Brokers that are started, stopped, killed and suspended, each on its own port."""

    def __init__(self, folder: Path, *, count: int = 3, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.data_dir = folder / "data"
        self._settings = {**QUICK_LEASES, **(settings or {})}
        self._ports = {broker_id: free_port() for broker_id in range(1, count + 1)}
        self._starts = itertools.count()
        self.running: dict[int, KlammProcess] = {}
        for broker_id in self._ports:
            self.start(broker_id)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    def start(self, broker_id: int) -> None:
        self.running[broker_id] = KlammProcess(
            self.data_dir,
            stderr_path=self.folder / f"broker-{broker_id}-{next(self._starts)}.log",
            port=self._ports[broker_id],
            settings={**self._settings, "node.id": str(broker_id)},
        )

    def kill(self, broker_id: int) -> None:
        self.running.pop(broker_id).kill()

    def stop(self, broker_id: int) -> None:
        """SIGTERM: it hands its partitions over."""
        assert self.running.pop(broker_id).terminate(60) == 0

    def suspend(self, broker_id: int, duration_s: float) -> None:
        """SIGSTOP, and SIGCONT if it is alive after that."""
        process = self.running[broker_id]
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(duration_s)
        if process.process.poll() is None:
            os.kill(process.pid, signal.SIGCONT)

    def pause(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            os.kill(self.running[broker_id].pid, signal.SIGSTOP)

    def resume(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            os.kill(self.running[broker_id].pid, signal.SIGCONT)

    def ended(self) -> list[int]:
        """Brokers whose processes were ended by others."""
        return [broker_id for broker_id, each in self.running.items() if each.process.poll() is not None]

    def leaders(self) -> dict[int, tuple[int, int]]:
        """(leader, epoch) by partition."""
        with Admin({"bootstrap.servers": self.bootstrap}) as admin:
            while True:
                try:
                    (found,) = admin.describe_topics([TOPIC]).values()
                except UnknownTopicOrPartitionError:
                    time.sleep(0.05)  # the broker that was asked has not seen the topic yet
                    continue
                return {each.partition: (each.leader_id, each.leader_epoch) for each in found.partitions}

    def logs(self) -> str:
        return "\n".join(
            f"== {path.name}\n{path.read_text(errors='replace')}"
            for path in sorted(self.folder.glob("broker-*.log"))
        )

    def close(self) -> None:
        for process in self.running.values():
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)
            process.kill()


class Promises:
    """Numbers produced to every partition, and offsets committed for several groups, each rising."""

    def __init__(self, bootstrap: str, *, groups: int = 4) -> None:
        self.bootstrap = bootstrap
        self.sent: list[Delivery] = []
        self.committed: dict[str, int] = {}  # what was acknowledged, by group
        self.going_back: list[str] = []
        self.transactions: list[int] = []  # numbers whose commit was acknowledged
        self.failures: list[BaseException] = []
        self._is_over = threading.Event()
        with Admin({"bootstrap.servers": bootstrap}) as admin:
            admin.create_topics({TOPIC: PARTITIONS, PAIRS: PARTITIONS})
        self._threads = [
            threading.Thread(target=self._write, daemon=True),
            threading.Thread(target=self._transact_and_tell, daemon=True),
        ]
        self._threads += [
            threading.Thread(target=self._commit, args=(f"group-{number}",), daemon=True)
            for number in range(groups)
        ]
        for thread in self._threads:
            thread.start()

    def _write(self) -> None:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "linger.ms": 5,
            "request.timeout.ms": 3_000,
            "delivery.timeout.ms": 120_000,
        }
        with Producer(settings) as producer:
            for number in itertools.count():
                if self._is_over.wait(0.01):
                    break
                for partition in range(PARTITIONS):
                    self.sent.append(producer.send(TOPIC, b"%d" % number, partition=partition))
            producer.flush(100)

    def _transact_and_tell(self) -> None:
        try:
            self._transact()
        except BaseException as error:
            self.failures.append(error)

    def _transact(self) -> None:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "transactional.id": "pairs",
            "request.timeout.ms": 3_000,
            "delivery.timeout.ms": 120_000,
            "max.block.ms": 120_000,
        }
        with Producer(settings) as producer:
            producer.init_transactions(timeout=120)
            for number in itertools.count():
                if self._is_over.wait(0.01):
                    return
                producer.begin_transaction()
                for partition in (number % PARTITIONS, (number + 1) % PARTITIONS):
                    producer.send(PAIRS, b"%d" % number, partition=partition)
                if number % 7 == 6:
                    producer.abort_transaction(120)
                else:
                    producer.commit_transaction(120)
                    self.transactions.append(number)

    def _commit(self, group: str) -> None:
        partition = TopicPartition(TOPIC, 0)
        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": group,
            "request.timeout.ms": 3_000,
            "default.api.timeout.ms": 30_000,
        }
        with Consumer(settings) as consumer:
            consumer.assign([partition])
            for offset in itertools.count(1):
                if self._is_over.wait(0.01):
                    return
                try:
                    consumer.commit({partition: offset})
                    self.committed[group] = offset
                    found = consumer.committed([partition])[partition]
                except KlammError:
                    continue  # unknown whether it was done: the next one says more
                if found is None or found.offset < offset:
                    self.going_back.append(f"{group}: {offset} was acknowledged, {found} was read")

    def end(self) -> None:
        """Stop the load; what is under way is completed."""
        self._is_over.set()
        for thread in self._threads:
            thread.join(150)
            assert not thread.is_alive()

    def check(self) -> None:
        """Every acknowledged record is where it was acknowledged, once and in order; no offset went back."""
        assert self.failures == []
        assert self.going_back == []
        places = [delivery.result(0) for delivery in self.sent]
        assert len({(place.partition, place.offset) for place in places}) == len(places)
        count = len(places) // PARTITIONS
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        numbers: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        with Consumer({"bootstrap.servers": self.bootstrap, "auto.offset.reset": "earliest"}) as consumer:
            consumer.assign(partitions)
            while any(len(found) < count for found in numbers.values()):
                for record in consumer.poll(30):
                    numbers[record.partition].append(record.value)
        expected = [b"%d" % number for number in range(count)]
        for number, found in numbers.items():
            assert found == expected, f"partition {number}"
        self._check_transactions()
        for group, offset in self.committed.items():
            with Consumer({"bootstrap.servers": self.bootstrap, "group.id": group}) as consumer:
                kept = consumer.committed([TopicPartition(TOPIC, 0)])[TopicPartition(TOPIC, 0)]
            assert kept is not None
            assert kept.offset >= offset, group

    def _check_transactions(self) -> None:
        """Each committed number is in both of its partitions, once and in order, and nothing else is."""
        expected: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        for number in self.transactions:
            for partition in (number % PARTITIONS, (number + 1) % PARTITIONS):
                expected[partition].append(number)
        found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        settings = {
            "bootstrap.servers": self.bootstrap,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
        with Consumer(settings) as consumer:
            partitions = [TopicPartition(PAIRS, number) for number in range(PARTITIONS)]
            consumer.assign(partitions)
            ends = consumer.end_offsets(partitions)
            while any(consumer.position(each) < ends[each] for each in partitions):
                for record in consumer.poll(1):
                    assert record.value is not None
                    found[record.partition].append(int(record.value))
        assert found == expected
