"""Consumers of kafka-python and aiokafka without a group: topics that come later, and records one by one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import klamm
from klamm.compat.aiokafka import AIOKafkaConsumer
from klamm.compat.kafka import KafkaConsumer

PATIENCE_S = 20


@pytest.fixture(scope="module")
def broker() -> Iterator[klamm.Broker]:
    with klamm.Broker() as broker:
        yield broker


def settings(broker: klamm.Broker) -> dict[str, Any]:
    return {"bootstrap_servers": broker.bootstrap, "auto_offset_reset": "earliest"}


def produce(broker: klamm.Broker, topic: str, count: int = 1) -> None:
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number)


def test_kafka_pythons_waits_as_long_as_it_is_told(broker: klamm.Broker) -> None:
    consumer = KafkaConsumer("absent", **settings(broker), consumer_timeout_ms=20)
    assert list(consumer) == []
    assert consumer.poll(20) == {}
    assert consumer.poll() == {}
    consumer.close()


def test_kafka_pythons_reads_a_topic_that_comes_while_it_waits(broker: klamm.Broker) -> None:
    consumer = KafkaConsumer(**settings(broker))
    consumer.subscribe(["later"])
    creation = threading.Thread(target=produce, args=(broker, "later"))
    creation.start()
    assert next(consumer).value == b"0"
    creation.join()
    consumer.close()


def test_kafka_pythons_hands_out_records_without_taking_the_rest_back(broker: klamm.Broker) -> None:
    produce(broker, "many", 3)
    consumer = KafkaConsumer("many", **settings(broker))
    assert next(consumer).value == b"0"
    handed_out = consumer._consumer._handout.records
    assert [next(consumer).value for _ in range(2)] == [b"1", b"2"]
    assert consumer._consumer._handout.records is handed_out
    consumer.close()


def test_aiokafkas_reads_a_topic_that_comes_while_it_waits(broker: klamm.Broker) -> None:
    async def work() -> None:
        async with AIOKafkaConsumer("soon", **settings(broker)) as consumer:
            assert await consumer.getmany(timeout_ms=20) == {}
            reading = asyncio.create_task(consumer.getone())
            await asyncio.to_thread(produce, broker, "soon")
            assert (await reading).value == b"0"

    asyncio.run(asyncio.wait_for(work(), PATIENCE_S))


def test_aiokafkas_hands_out_records_without_taking_the_rest_back(broker: klamm.Broker) -> None:
    produce(broker, "several", 3)

    async def work() -> None:
        async with AIOKafkaConsumer("several", **settings(broker)) as consumer:
            assert (await consumer.getone()).value == b"0"
            handed_out = consumer._consumer._handout.records
            assert [(await consumer.getone()).value for _ in range(2)] == [b"1", b"2"]
            assert consumer._consumer._handout.records is handed_out

    asyncio.run(asyncio.wait_for(work(), PATIENCE_S))


def test_aiokafkas_iteration_ends_when_it_is_stopped_without_a_topic(broker: klamm.Broker) -> None:
    async def work() -> None:
        consumer = AIOKafkaConsumer("never", **settings(broker))
        await consumer.start()

        async def read() -> list[Any]:
            return [record async for record in consumer]

        reading = asyncio.create_task(read())
        await asyncio.sleep(0)
        await consumer.stop()
        assert await reading == []

    asyncio.run(asyncio.wait_for(work(), PATIENCE_S))
