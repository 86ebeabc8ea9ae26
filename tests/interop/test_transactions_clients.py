"""Transactional producers of other libraries, in both transaction protocols."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.kafka_tools import run_kafka_tool
from interop.processes import KlammProcess

pytestmark = pytest.mark.timeout(180)

FAST = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}


@pytest.fixture(params=["0", "2"], ids=["v1", "v2"])
def bootstrap(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    settings = {**FAST, "transaction.version": request.param}
    with KlammProcess(tmp_path / "data", stderr_path=tmp_path / "klamm.log", settings=settings) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for created in admin.create_topics([NewTopic("out", 2), NewTopic("in", 1)]).values():
            created.result()
        yield broker.bootstrap


def a_producer(bootstrap: str, **settings: object) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t", **settings})
    producer.init_transactions(30)
    return producer


def read(bootstrap: str, isolation: str = "read_committed") -> list[str]:
    """The values in both partitions of `out`, in order of their text."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition("out", partition, 0) for partition in (0, 1)])
    values: list[str] = []
    ends = 0
    while ends < 2:
        message = consumer.poll(30)
        assert message is not None, "no end of the partitions in 30 s"
        if message.error():
            ends += 1
        else:
            values.append((message.value() or b"").decode())
    consumer.close()
    return sorted(values)


def test_librdkafka_commits_and_aborts(bootstrap: str) -> None:
    producer = a_producer(bootstrap)
    for number in range(10):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce("out", f"{number}", partition=partition)
        if number % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    assert read(bootstrap) == sorted(str(number) for number in (0, 2, 4, 6, 8) * 2)
    assert len(read(bootstrap, "read_uncommitted")) >= 10


def test_librdkafka_consumes_transforms_and_produces(bootstrap: str) -> None:
    source = Producer({"bootstrap.servers": bootstrap})
    for number in range(5):
        source.produce("in", f"{number}")
    source.flush(30)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["in"])
    producer = a_producer(bootstrap)
    producer.begin_transaction()
    for _ in range(5):
        message = consumer.poll(30)
        assert message is not None
        assert not message.error()
        producer.produce("out", message.value(), partition=0)
    positions = consumer.position(consumer.assignment())
    producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 30)
    producer.commit_transaction(30)
    (committed,) = consumer.committed([TopicPartition("in", 0)], 30)
    consumer.close()
    assert committed.offset == 5
    assert read(bootstrap) == [str(number) for number in range(5)]


def test_a_second_instance_fences_the_first(bootstrap: str) -> None:
    first = a_producer(bootstrap)
    first.begin_transaction()
    first.produce("out", "zombie", partition=0)
    first.flush(30)
    second = a_producer(bootstrap)
    with pytest.raises(KafkaException) as fenced:
        first.commit_transaction(30)
    assert fenced.value.args[0].fatal()
    second.begin_transaction()
    second.produce("out", "alive", partition=1)
    second.commit_transaction(30)
    assert read(bootstrap) == ["alive"]


def test_aiokafka_commits_and_aborts(bootstrap: str) -> None:
    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="a")
        await producer.start()
        async with producer.transaction():
            await producer.send_and_wait("out", b"kept", partition=0)
        await producer.begin_transaction()
        await producer.send_and_wait("out", b"dropped", partition=1)
        await producer.abort_transaction()
        await producer.stop()

    asyncio.run(run())
    assert read(bootstrap) == ["kept"]


def test_java_commits_many_transactions(bootstrap: str) -> None:
    done = run_kafka_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", "out", "--num-records", "200"),
        *("--record-size", "10", "--throughput", "400"),
        *("--transactional-id", "java", "--transaction-duration-ms", "20"),
    )
    assert done.returncode == 0, done.stderr
    assert len(read(bootstrap)) == 200
    described = run_kafka_tool(
        "org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", bootstrap, "list"
    )
    assert "java" in described.stdout
    assert "CompleteCommit" in described.stdout
