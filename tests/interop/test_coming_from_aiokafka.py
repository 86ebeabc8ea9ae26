"""Programs written for aiokafka: the same with aiokafka and with `klamm.compat.aiokafka`, on one broker."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import aiokafka
import pytest

import klamm.compat.aiokafka

pytestmark = [pytest.mark.timeout(120)]


@pytest.fixture(params=[aiokafka, klamm.compat.aiokafka], ids=["theirs", "ours"])
def lib(request: pytest.FixtureRequest) -> Any:
    return request.param


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


def test_send_one_and_consume(lib: Any, bootstrap: str, topic: str) -> None:
    async def send_one() -> None:
        producer = lib.AIOKafkaProducer(bootstrap_servers=bootstrap)
        await producer.start()
        try:
            place = await producer.send_and_wait(topic, b"Super message")
            assert (place.topic, place.partition, place.offset) == (topic, 0, 0)
        finally:
            await producer.stop()

    async def consume() -> list[Any]:
        consumer = lib.AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=f"g-{topic}", auto_offset_reset="earliest"
        )
        await consumer.start()
        read = []
        try:
            async for msg in consumer:
                read.append((msg.topic, msg.partition, msg.offset, msg.key, msg.value))
                break
        finally:
            await consumer.stop()
        return read

    async def work() -> None:
        await send_one()
        assert await consume() == [(topic, 0, 0, None, b"Super message")]

    run(work())


def test_offsets_by_hand(lib: Any, bootstrap: str, topic: str) -> None:
    async def work() -> None:
        async with lib.AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=5) as producer:
            futures = [await producer.send(topic, b"%d" % number, partition=0) for number in range(10)]
            for future in futures:
                await future
            assert await producer.partitions_for(topic) == {0}
        consumer = lib.AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=f"g-{topic}",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        await consumer.start()
        partition = lib.TopicPartition(topic, 0)
        message = await consumer.getone()
        assert message.value == b"0"
        data: dict[Any, list[Any]] = {}
        while not data:
            data = await consumer.getmany(timeout_ms=1000, max_records=4)
        assert [item.value for item in data[partition]] == [b"1", b"2", b"3", b"4"]
        await consumer.commit({partition: message.offset + 1})
        assert await consumer.committed(partition) == 1
        assert await consumer.position(partition) == 5
        await consumer.seek_to_beginning(partition)
        assert (await consumer.getone(partition)).offset == 0
        await consumer.seek_to_end(partition)
        assert await consumer.position(partition) == 10
        await consumer.seek_to_committed(partition)
        assert (await consumer.getone()).offset == 1
        assert consumer.highwater(partition) == 10
        assert topic in await consumer.topics()
        assert consumer.partitions_for_topic(topic) == {0}
        assert consumer.assignment() == frozenset({partition})
        assert await consumer.end_offsets([partition]) == {partition: 10}
        await consumer.stop()

    run(work())


def test_without_a_group_and_with_a_listener(lib: Any, bootstrap: str, topic: str) -> None:
    async def work() -> None:
        async with lib.AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            await producer.send_and_wait(topic, b"x", headers=[("h", b"v")])
        groupless = lib.AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        await groupless.start()
        message = await groupless.getone()
        assert (message.value, tuple(message.headers)) == (b"x", (("h", b"v"),))
        await groupless.stop()
        heard: list[str] = []

        class Listener(lib.ConsumerRebalanceListener):  # type: ignore[misc]  # one of two
            async def on_partitions_revoked(self, revoked: Any) -> None:
                heard.append("revoked")

            async def on_partitions_assigned(self, assigned: Any) -> None:
                heard.append("assigned")

        consumer = lib.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=f"g-{topic}", auto_offset_reset="earliest"
        )
        consumer.subscribe([topic], listener=Listener())
        await consumer.start()
        assert (await consumer.getone()).value == b"x"
        assert "assigned" in heard
        await consumer.stop()

    run(work())


def test_batches_and_transactions(lib: Any, bootstrap: str, topic: str) -> None:
    async def work() -> None:
        async with lib.AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            batch = producer.create_batch()
            for number in range(3):
                assert batch.append(key=None, value=b"batch %d" % number, timestamp=None) is not None
            assert batch.record_count() == 3
            await producer.send_and_wait(topic, b"first")
            place = await (await producer.send_batch(batch, topic, partition=0))
            assert place.offset == 1
        async with (
            lib.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"x-{topic}") as producer,
            producer.transaction(),
        ):
            await producer.send_and_wait(topic, b"in a transaction")

    run(work())


def test_a_listener_hears_of_a_revocation_before_every_assignment(
    lib: Any, bootstrap: str, topic: str
) -> None:
    calls: list[tuple[str, Any]] = []

    class Listener(lib.ConsumerRebalanceListener):  # type: ignore[misc]  # one of two
        async def on_partitions_revoked(self, revoked: Any) -> None:
            calls.append(("revoked", revoked))

        async def on_partitions_assigned(self, assigned: Any) -> None:
            calls.append(("assigned", assigned))

    async def work() -> None:
        producer = lib.AIOKafkaProducer(bootstrap_servers=bootstrap)
        await producer.start()
        await producer.send_and_wait(topic, b"x", partition=0)
        await producer.stop()
        consumer = lib.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=f"g-{topic}", auto_offset_reset="earliest"
        )
        consumer.subscribe([topic], listener=Listener())
        await consumer.start()
        await consumer.getone()
        assert calls[-1] == ("assigned", {lib.TopicPartition(topic, 0)})
        assert calls[::2] == [("revoked", set())] * (len(calls) // 2)  # it may be told of none at first
        await consumer.stop()

    run(work())
