"""Connections that break or fall silent, brokers that die: the client goes on, nothing lost or repeated."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.conftest import QUICK_GROUPS
from interop.kafka_tools import ApacheKafka, free_port
from interop.own import PATIENCE_S, Own, read, values
from interop.own_members import Party
from interop.processes import KlammProcess
from interop.proxy import Proxy
from klamm import Consumer, Producer, TopicPartition
from klamm.client.producer.delivery import Delivery
from klamm.testing import wait_until

pytestmark = pytest.mark.timeout(180)

# Tries again soon, and does not wait long for those who are gone.
IMPATIENT = {
    "request.timeout.ms": 1_000,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
}


@pytest.fixture(params=["klamm", "kafka"])
def proxy(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Proxy]:
    """A way to the broker that the broker itself tells its clients to take."""
    if request.param == "kafka":
        kafka: ApacheKafka = request.getfixturevalue("shared_kafka")
        with Proxy(kafka.detour_target, port=kafka.detour_port, seed=1) as proxy:
            yield proxy
        return
    with Proxy(free_port(), seed=1) as proxy:
        settings = {**QUICK_GROUPS, "advertised.listeners": f"PLAINTEXT://{proxy.bootstrap}"}
        with KlammProcess(
            tmp_path / "data", stderr_path=tmp_path / "klamm.log", port=proxy.target_port, settings=settings
        ):
            yield proxy


@pytest.fixture
def cluster(proxy: Proxy) -> str:
    return proxy.bootstrap


def everything(own: Own, partitions: list[TopicPartition], count: int) -> dict[int, list[bytes]]:
    """All that is in the log, by partition, and a little longer than needed: nothing may follow."""
    consumer = own.consumer(group_id=None)
    consumer.assign(partitions)
    records = read(consumer, count)
    records += consumer.poll(0.2)
    return {
        partition.partition: values(r for r in records if r.partition == partition.partition)
        for partition in partitions
    }


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_an_idempotent_producer_writes_each_record_once_over_a_line_that_breaks(
    own: Own, topic: str, proxy: Proxy, compression: str
) -> None:
    partitions = own.create_topic(topic, 3)
    producer = own.producer(linger_ms=1, batch_size=600, compression_type=compression, **IMPATIENT)
    before = proxy.cuts
    proxy.cut_chance = 0.08
    sent = []
    for number in range(1_500):
        for partition in partitions:
            sent.append(producer.send(topic, b"%d" % number, partition=partition.partition))
        if number % 300 == 299:
            proxy.cut_all()
    producer.flush(60)
    proxy.cut_chance = 0.0
    assert proxy.cuts - before > 10, "the line did break"
    for delivery in sent:
        assert delivery.exception() is None
    expected = [b"%d" % number for number in range(1_500)]
    assert everything(own, partitions, 4_500) == dict.fromkeys(range(3), expected)


def test_a_group_reads_each_record_once_over_a_line_that_breaks(own: Own, topic: str, proxy: Proxy) -> None:
    partitions = own.create_topic(topic, 4)
    own.fill(partitions, 500)
    before = proxy.cuts
    with Party(own.bootstrap, f"g-{topic}", [topic], max_poll_records=20, **IMPATIENT) as party:
        members = [party.join("anna"), party.join("bert")]
        party.settle(members, partitions)
        proxy.cut_chance = 0.1
        party.wait_for_records({(*partition, offset) for partition in partitions for offset in range(500)})
        proxy.cut_chance = 0.0
        for member in members:
            read_by_it = [(number, offset) for _, number, offset in member.records]
            for number in range(4):
                offsets = [offset for read_from, offset in read_by_it if read_from == number]
                assert offsets == sorted(offsets)
    assert proxy.cuts - before > 3, "the line did break"
    assert set(party.times_read().values()) == {1}


def test_connections_that_fall_silent_are_given_up_and_made_anew(own: Own, topic: str, proxy: Proxy) -> None:
    partitions = own.create_topic(topic, 2)
    settings = {**IMPATIENT, "request.timeout.ms": 500, "fetch.max.wait.ms": 100}
    producer = own.producer(**{name: settings[name] for name in IMPATIENT})
    consumer = own.consumer(topic, group_id=f"g-{topic}", **settings)
    for number in range(2):
        sent = [producer.send(topic, b"%d" % number, partition=item.partition) for item in partitions]
        assert values(read(consumer, 2)) == [b"%d" % number] * 2
        proxy.freeze_all()
        began = time.monotonic()
        consumer.commit_sync()
        assert time.monotonic() - began < PATIENCE_S / 2
        assert [delivery.result(30).offset for delivery in sent] == [number, number]


class KlammRestarts:
    """klamm on a port and a folder of its own, killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._number = 0
        self._broker = self._start()
        self.bootstrap = self._broker.bootstrap

    def _start(self) -> KlammProcess:
        self._number += 1
        return KlammProcess(
            self._folder / "data",
            stderr_path=self._folder / f"klamm-{self._number}.log",
            port=self._port,
            settings=QUICK_GROUPS,
        )

    def kill_and_start(self) -> None:
        self._broker.kill()
        self._broker = self._start()

    def close(self) -> None:
        self._broker.close()


class KafkaRestarts:
    """The Apache Kafka of this session, killed and started again."""

    def __init__(self, kafka: ApacheKafka) -> None:
        self._kafka = kafka
        self.bootstrap = kafka.bootstrap

    def kill_and_start(self) -> None:
        self._kafka.kill()
        self._kafka.start()

    def close(self) -> None:
        """Others need it still."""


@pytest.fixture(params=["klamm", "kafka"])
def restarts(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KlammRestarts | KafkaRestarts]:
    made = (
        KlammRestarts(tmp_path)
        if request.param == "klamm"
        else KafkaRestarts(request.getfixturevalue("shared_kafka"))
    )
    yield made
    made.close()


def produce_numbers(
    bootstrap: str, topic: str, partition_count: int, is_over: threading.Event, sent: list[Delivery]
) -> None:
    """One record after the other to every partition, until it is over."""
    with Producer({"bootstrap.servers": bootstrap, "linger.ms": 2, **IMPATIENT}) as producer:
        number = 0
        while not is_over.is_set():
            for partition in range(partition_count):
                sent.append(producer.send(topic, b"%d" % number, partition=partition))
            number += 1
            is_over.wait(0.002)
        producer.flush(60)


def test_a_broker_that_is_killed_and_restarted_loses_nothing_and_repeats_nothing(
    topic: str, restarts: KlammRestarts | KafkaRestarts
) -> None:
    sent: list[Delivery] = []
    is_over = threading.Event()
    kills = 3 if isinstance(restarts, KlammRestarts) else 1
    with Own(restarts.bootstrap) as own:
        partitions = own.create_topic(topic, 3)
        writer = threading.Thread(
            target=produce_numbers, args=(own.bootstrap, topic, 3, is_over, sent), daemon=True
        )
        with Party(own.bootstrap, f"g-{topic}", [topic], session_timeout_ms=30_000, **IMPATIENT) as party:
            members = [party.join("anna"), party.join("bert")]
            party.settle(members, partitions)
            writer.start()
            try:
                for wanted in (100, 250, 150)[:kills]:
                    enough = len(party.times_read()) + wanted
                    party.wait_until(lambda n=enough: len(party.times_read()) >= n, "records")  # type: ignore[misc]  # bound now
                    restarts.kill_and_start()
            finally:
                is_over.set()
                writer.join(60)
            where = {(topic, *delivery.result(0)[1:3]) for delivery in sent}
            assert len(where) == len(sent), "every record has a place of its own"
            party.wait_for_records(where)
        # The members kept their partitions all along, and their places in them.
        assert party.times_read() == dict.fromkeys(where, 1)
        expected = [b"%d" % number for number in range(len(sent) // 3)]
        assert everything(own, partitions, len(sent)) == dict.fromkeys(range(3), expected)


def test_a_consumer_waits_for_a_broker_that_comes_later_and_says_what_is_wrong(tmp_path: Path) -> None:
    port = free_port()
    with Consumer({"bootstrap.servers": f"127.0.0.1:{port}", **IMPATIENT}) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        assert not consumer.poll(0.3)
        assert not consumer.health().is_healthy
        wait_until(lambda: f"127.0.0.1:{port}" in str(consumer.health().last_error))
        with KlammProcess(tmp_path / "data", stderr_path=tmp_path / "klamm.log", port=port) as broker:
            with Producer(bootstrap_servers=broker.bootstrap) as producer:
                producer.send("t", b"at last").result(30)
            consumer.seek_to_beginning()
            assert values(read(consumer, 1)) == [b"at last"]
            assert consumer.health().is_healthy, consumer.health()
