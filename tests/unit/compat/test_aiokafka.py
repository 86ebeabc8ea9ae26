"""aiokafka's and kafka-python's calls, with every form of argument that their documentation has."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

import klamm
from klamm.compat import aiokafka, kafka
from klamm.compat.aiokafka.errors import KafkaConnectionError


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


PLACE = klamm.TopicPartition("t", 0)


@pytest.mark.parametrize(
    "offset", [3, (3, "why"), aiokafka.OffsetAndMetadata(3, "why"), kafka.OffsetAndMetadata(3, "why", -1)]
)
def test_offsets_of_every_form_are_committed(offset: Any) -> None:
    async def work() -> None:
        with klamm.Broker() as broker:
            async with aiokafka.AIOKafkaProducer(
                bootstrap_servers=broker.bootstrap, transactional_id="x"
            ) as producer:
                await producer.begin_transaction()
                await producer.send("t", b"v")
                await producer.send_offsets_to_transaction({PLACE: offset}, "in-a-transaction")
                await producer.commit_transaction()
            for group in ("in-a-transaction", "g"):
                consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=group)
                async with consumer:
                    if group == "g":
                        consumer.assign([PLACE])
                        await consumer.commit({PLACE: offset})
                    assert await consumer.committed(PLACE) == 3
            with kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id="k") as other:
                other.commit({PLACE: offset})
                assert other.committed(PLACE) == 3
                assert other.committed(PLACE, metadata=True, timeout_ms=1000).offset == 3

    run(work())


def test_positional_arguments_are_in_aiokafkas_order_and_futures_are_the_loops() -> None:
    async def work() -> None:
        with klamm.Broker() as broker:
            async with aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
                future = await producer.send("t", b"v", b"k", 0, 1234, [("h", b"x")])
                done, _ = await asyncio.wait([future], timeout=30)
                place = done.pop().result()
                assert place == ("t", 0, PLACE, 0, 1234, 0, None)
                again = await producer.send_and_wait("t", b"v", b"k", 0, 1235, [("h", b"x")])
                assert (again.offset, again.timestamp, again.topic_partition) == (1, 1235, PLACE)
            consumer = aiokafka.AIOKafkaConsumer(
                "t", bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest"
            )
            async with consumer:
                record = await consumer.getone()
                assert (record.key, record.timestamp, list(record.headers)) == (b"k", 1234, [("h", b"x")])

    run(work())


def test_a_pattern_without_a_group_reads_what_matches() -> None:
    async def work() -> None:
        with klamm.Broker() as broker:
            async with aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
                await producer.send_and_wait("orders-1", b"v")
                await producer.send_and_wait("other", b"v")
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest"
            )
            consumer.subscribe(pattern="^orders-.*")
            async with consumer:
                assert (await consumer.getone()).topic == "orders-1"
                assert consumer.assignment() == {klamm.TopicPartition("orders-1", 0)}

    run(work())


def test_a_start_without_a_broker_raises() -> None:
    async def work() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers="127.0.0.1:1", request_timeout_ms=600)
        with pytest.raises(KafkaConnectionError):
            await producer.start()
        await producer.stop()

    run(work())
    with pytest.raises((kafka.NoBrokersAvailable, kafka.KafkaTimeoutError)):
        kafka.KafkaProducer(bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=50)


def test_kafka_pythons_transactions_take_the_consumers_metadata() -> None:
    with klamm.Broker() as broker:
        with kafka.KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            place = producer.send("t", b"v", timestamp_ms=7).get(timeout=30)
            assert (place.topic_partition, place.timestamp) == (PLACE, 7)
        consumer = kafka.KafkaConsumer(
            "t", bootstrap_servers=broker.bootstrap, group_id="g", auto_offset_reset="earliest"
        )
        assert consumer.poll(timeout_ms=10_000, update_offsets=False)
        assert consumer.position(PLACE, timeout_ms=1000) == 0
        assert next(consumer).value == b"v"
        metadata = consumer.group_metadata()
        assert (metadata.group_id, metadata.state) == ("g", "<stable>")
        with kafka.KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="x") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send_offsets_to_transaction({PLACE: kafka.OffsetAndMetadata(1, "", -1)}, metadata)
            producer.commit_transaction()
        assert consumer.committed(PLACE) == 1
        assert consumer.beginning_offsets([PLACE], timeout_ms=1000) == {PLACE: 0}
        consumer.close()


def test_serializer_objects_are_called_with_topic_and_headers() -> None:
    with klamm.Broker() as broker:
        serializer = kafka.JsonSerializer()
        with kafka.KafkaProducer(bootstrap_servers=broker.bootstrap, value_serializer=serializer) as producer:
            producer.send("t", {"n": 1}).get(timeout=30)
        with kafka.KafkaConsumer(
            "t",
            bootstrap_servers=broker.bootstrap,
            auto_offset_reset="earliest",
            value_deserializer=serializer,
            consumer_timeout_ms=10_000,
        ) as consumer:
            assert next(consumer).value == {"n": 1}


def test_what_cannot_be_is_refused_at_once() -> None:
    async def work(broker: klamm.Broker) -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
        await producer.start()
        await producer.send_and_wait("t", b"1")
        with pytest.raises(AssertionError, match="Unrecognized partition"):
            await producer.send("t", b"2", partition=99)
        await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer("t", bootstrap_servers=broker.bootstrap, group_id="g")
        await consumer.start()
        with pytest.raises(klamm.errors.IllegalStateError, match="other-0 is not assigned"):
            await consumer.commit({klamm.TopicPartition("other", 0): 1})
        await consumer.stop()
        for read in (consumer.getone, consumer.getmany):
            with pytest.raises(aiokafka.ConsumerStoppedError):
                await read()

    with klamm.Broker() as broker:
        run(work(broker))
