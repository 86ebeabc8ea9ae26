"""Broker processes on one PostgreSQL, random faults, and loads that remember what they were promised."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.kafka_tools import free_port
from interop.processes import KlammProcess
from klamm.testing import wait_until
from postgresql import PostgresServer

TOPIC: Final = "t"
PAIRS: Final = "transfers"  # each transaction writes its number to two partitions
PARTITIONS: Final = 6
# Short leases: a killed broker is replaced within two seconds.
SETTINGS: Final = {
    "broker.heartbeat.interval.ms": "300",
    "klamm.broker.serve.window.ms": "700",
    "broker.session.timeout.ms": "2100",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
}


class PostgresBrokers:
    """Brokers on one database, each at an address of its own that it keeps over restarts."""

    def __init__(
        self, postgres: PostgresServer, folder: Path, size: int, settings: Mapping[str, str] | None = None
    ) -> None:
        self.postgres = postgres
        self._folder = folder
        self._settings = {**SETTINGS, **(settings or {})}
        self._ports = {node_id: free_port() for node_id in range(1, size + 1)}
        self._starts = itertools.count(1)
        self.running: dict[int, KlammProcess] = {}
        for node_id in self._ports:
            self.start(node_id)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    def address(self, node_id: int) -> str:
        return f"127.0.0.1:{self._ports[node_id]}"

    def create_topics(self, *names: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for created in admin.create_topics(
            [NewTopic(name, PARTITIONS, 1) for name in names or (TOPIC, PAIRS)]
        ).values():
            created.result(30)

    def start(self, node_id: int, *, port: int | None = None) -> None:
        """Start a broker, on the address that it had before or another one."""
        self.running[node_id] = KlammProcess(
            None,
            store=self.postgres.url,
            port=self._ports[node_id] if port is None else port,
            stderr_path=self._folder / f"broker-{node_id}-{next(self._starts)}.log",
            settings={**self._settings, "node.id": str(node_id)},
        )

    def kill(self, node_id: int) -> None:
        self.running.pop(node_id).kill()

    def stop(self, node_id: int) -> None:
        """SIGTERM: it hands its partitions over."""
        assert self.running.pop(node_id).terminate(60) == 0

    def signal(self, node_id: int, number: signal.Signals) -> None:
        os.kill(self.running[node_id].pid, number)

    def suspend(self, node_id: int, duration_s: float) -> None:
        self.signal(node_id, signal.SIGSTOP)
        time.sleep(duration_s)
        self.signal(node_id, signal.SIGCONT)

    def leads_nothing(self, node_id: int) -> bool:
        led = self.postgres.execute(f"SELECT count(*) FROM partition WHERE leader_id = {node_id}")
        return led == [(0,)]

    def leaders(self) -> dict[tuple[str, int], tuple[int, int]]:
        """(leader, epoch) of each partition of the topics here, as the database has it."""
        rows = self.postgres.execute(
            "SELECT name, partition, leader_id, leader_epoch FROM partition JOIN topic USING (topic_id) "
            f"WHERE name IN ('{TOPIC}', '{PAIRS}')"
        )
        return {(str(name), int(str(number))): (int(str(a)), int(str(b))) for name, number, a, b in rows}

    def logs(self) -> str:
        return "".join(path.read_text(errors="replace") for path in sorted(self._folder.glob("broker-*.log")))

    def close(self) -> None:
        for broker in self.running.values():
            with suppress(ProcessLookupError):
                os.kill(broker.pid, signal.SIGCONT)
            broker.kill()


class Faults:
    """What happens to the brokers and their database, chosen at random."""

    def __init__(self, cluster: PostgresBrokers, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self.happened: list[str] = []

    def run(self, kinds: list[str]) -> None:
        """Each of these, in random order."""
        self._random.shuffle(kinds)
        for kind in kinds:
            node_id = self._random.choice(sorted(self._cluster.running))
            self.happened.append(f"{kind} {node_id}")
            getattr(self, f"_{kind}")(node_id)
            time.sleep(self._random.uniform(0.2, 1.0))

    def _kill(self, node_id: int) -> None:
        self._cluster.kill(node_id)
        time.sleep(self._random.uniform(0.0, 3.0))  # it is back before others take over, or after
        self._cluster.start(node_id)

    def _stop(self, node_id: int) -> None:
        self._cluster.stop(node_id)
        self._cluster.start(node_id)

    def _pause(self, node_id: int) -> None:
        """For less than its serve window, or a little longer."""
        self._cluster.suspend(node_id, self._random.uniform(0.2, 1.5))

    def _suspend(self, node_id: int) -> None:
        """Until others have taken everything over."""
        self._cluster.signal(node_id, signal.SIGSTOP)
        wait_until(lambda: self._cluster.leads_nothing(node_id), "90s")
        time.sleep(self._random.uniform(0.0, 1.0))
        self._cluster.signal(node_id, signal.SIGCONT)

    def _restart(self, _: int) -> None:
        """The database: in good order, or as by a crash."""
        self._cluster.postgres.stop(self._random.choice((signal.SIGINT, signal.SIGQUIT)))
        time.sleep(self._random.uniform(0.0, 1.5))
        self._cluster.postgres.start()

    def _cut(self, _: int) -> None:
        """Connections of one kind, of all brokers."""
        kind = self._random.choice(("appends", "reads", "lease", "cluster", "changes"))
        self._cluster.postgres.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'klamm {kind}'"
        )


class Numbers:
    """An idempotent producer on its own thread: numbered records, and which of them were acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: dict[int, tuple[int, int]] = {}  # partition and offset, by number
        self.errors: list[KafkaError] = []
        self._bootstrap = bootstrap
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": 120_000,
                "log_level": 0,
            }
        )
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._is_over.is_set():
            with suppress(BufferError):  # nothing is delivered for now, and the queue is full
                for _ in range(10):
                    self._producer.produce(
                        TOPIC, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._delivered
                    )
                    number += 1
            self._producer.poll(0.005)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            value = message.value()
            assert value is not None
            self.acknowledged[int(value)] = (message.partition() or 0, message.offset() or 0)

    def wait_for_more(self, count: int = 100) -> None:
        """Wait until so many more records are acknowledged: the cluster serves again."""
        wanted = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= wanted, "90s")

    def end(self) -> None:
        self._is_over.set()
        self._thread.join()
        assert self._producer.flush(120) == 0

    def check(self) -> None:
        """What was acknowledged is where it was said to be, once, in order."""
        assert self.errors == []
        found = read_all(self._bootstrap, TOPIC)
        for partition, records in found.items():
            assert [offset for offset, _ in records] == list(range(len(records))), "offsets without a gap"
            numbers = [number for _, number in records]
            assert numbers == sorted(set(numbers)), f"partition {partition}: twice, or out of order"
        places = {number: (partition, offset) for partition, each in found.items() for offset, number in each}
        lost = {number for number, place in self.acknowledged.items() if places.get(number) != place}
        assert not lost, f"lost or moved: {sorted(lost)[:20]}"


class Pairs:
    """Transactions on their own thread: each writes its number to two partitions and commits or aborts."""

    def __init__(self, bootstrap: str, random: Random) -> None:
        self._bootstrap = bootstrap
        self._random = random
        self.committed: set[int] = set()
        self.aborted: set[int] = set()
        self._is_over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            producer = self._new_producer()
            for number in itertools.count():
                if self._is_over.is_set():
                    return
                if not self._transaction(producer, number):
                    producer = self._new_producer()
        except BaseException as failure:
            self._failure = failure

    def _new_producer(self) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": "transfers",
                "transaction.timeout.ms": 60_000,
                "log_level": 0,
            }
        )
        while True:
            with suppress(KafkaException):
                producer.init_transactions(60)
                return producer

    def _transaction(self, producer: Producer, number: int) -> bool:
        """Whether the producer can be used further. Where it ends is not known after a fatal error."""
        try:
            producer.begin_transaction()
            for partition in self._random.sample(range(PARTITIONS), 2):
                producer.produce(PAIRS, b"%d" % number, partition=partition)
            if self._random.random() < 0.3:
                self._end(lambda: producer.abort_transaction(60))
                self.aborted.add(number)
            else:
                self._end(lambda: producer.commit_transaction(60))
                self.committed.add(number)
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                with suppress(KafkaException):
                    self._end(lambda: producer.abort_transaction(60))
                    self.aborted.add(number)
                    return True
            return False
        return True

    def _end(self, end: Callable[[], None]) -> None:
        while True:
            try:
                return end()
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise

    def end(self) -> None:
        self._is_over.set()
        self._thread.join(180)
        assert not self._thread.is_alive()
        if self._failure is not None:
            raise self._failure

    def check(self) -> None:
        """Every transaction is seen in two partitions or in none, as its end was acknowledged."""
        assert self.committed
        found = read_all(self._bootstrap, PAIRS)
        seen = sorted(number for records in found.values() for _, number in records)
        assert set(seen[::2]) == set(seen[1::2])
        assert seen[::2] == seen[1::2] == sorted(set(seen)), "in both partitions, once"
        assert self.committed <= set(seen)
        assert not self.aborted & set(seen)


def read_all(bootstrap: str, topic: str) -> dict[int, list[tuple[int, int]]]:
    """(offset, number) of every committed record of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "check",
            "log_level": 0,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    found: dict[int, list[tuple[int, int]]] = {partition: [] for partition in range(PARTITIONS)}
    try:
        for partition, records in found.items():
            consumer.assign([TopicPartition(topic, partition, 0)])
            is_at_end = False
            while not is_at_end:
                for message in consumer.consume(500, timeout=0.2):
                    if (error := message.error()) is not None:
                        assert error.code() == KafkaError._PARTITION_EOF, error
                        is_at_end = True
                        continue
                    value = message.value()
                    assert value is not None
                    records.append((message.offset() or 0, int(value)))
    finally:
        consumer.close()
    return found
