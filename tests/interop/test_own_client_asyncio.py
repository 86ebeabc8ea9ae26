"""The asyncio faces, end to end, on klamm and on Apache Kafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from interop.harness import START_MS
from interop.own import PATIENCE_S
from klamm import TopicPartition, aio
from klamm.client.admin.model import NewTopic
from klamm.client.consumer.group.listener import RebalanceListener
from klamm.client.consumer.records import ConsumerRecord
from klamm.errors import ConcurrentAccessError, IllegalStateError, RecordTooLargeError

pytestmark = [pytest.mark.groups, pytest.mark.timeout(120)]


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 100))


def a_consumer(cluster: str, *topics: str, **settings: Any) -> aio.Consumer:
    usual = {
        "bootstrap.servers": cluster,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "heartbeat.interval.ms": 200,
    }
    return aio.Consumer(*topics, usual | settings)


async def a_topic(cluster: str, name: str, partitions: int) -> list[TopicPartition]:
    async with aio.Admin(bootstrap_servers=cluster) as admin:
        (await admin.create_topics([NewTopic(name, partitions, 1)])).unwrap()
        await admin.wait_for_topics([name])
    return [TopicPartition(name, number) for number in range(partitions)]


async def read(consumer: aio.Consumer, count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(records) < count and time.monotonic() < deadline:
        records += await consumer.poll(0.5, max_records=count - len(records))
    return records


def test_what_is_sent_is_read_committed_and_found_again(cluster: str, topic: str) -> None:
    async def work() -> None:
        one, two = await a_topic(cluster, topic, 2)
        async with aio.Producer(bootstrap_servers=cluster, linger_ms=2) as producer:
            sent = [
                await producer.send(topic, b"%d" % n, partition=n % 2, timestamp_ms=START_MS + n)
                for n in range(100)
            ]
            assert [(await delivery).offset for delivery in sent] == [n // 2 for n in range(100)]
            where = await producer.send_and_wait(topic, "text", "key", partition=0)
            assert (where.partition, where.offset) == (0, 50)
            await producer.flush()
            with pytest.raises(RecordTooLargeError):
                await producer.send(topic, bytes(2_000_000))
        group = f"g-{topic}"
        async with a_consumer(cluster, topic, **{"group.id": group}) as consumer:
            records = await read(consumer, 101)
            assert sorted(record.offset for record in records) == sorted([*range(50), *range(51)])
            await consumer.commit()
            committed = await consumer.committed([one, two])
            assert [item.offset if item else None for item in committed.values()] == [51, 50]
            consumer.seek(one, 49)
            first = await consumer.getone(10)
            assert first is not None
            assert first.offset == 49
            async for record in consumer:
                assert (record.key, record.value) == (b"key", b"text")
                break
            consumer.seek_to_beginning(two)
            assert await consumer.position(two) == 0
            many = await consumer.getmany(two, timeout_ms=10_000, max_records=5)
            assert [record.offset for record in many[two]] == [0, 1, 2, 3, 4]
            assert await consumer.end_offsets([one, two]) == {one: 51, two: 50}
            found = await consumer.offsets_for_times({one: START_MS + 10})
            assert found[one] is not None
            consumer.pause(one, two)
            assert not await consumer.poll(0.1)
            consumer.resume(one, two)
            assert consumer.health().is_healthy, consumer.health()
        with pytest.raises(IllegalStateError):
            await consumer.poll(0)
        async with aio.Admin(bootstrap_servers=cluster) as admin:
            offsets = await admin.list_group_offsets(group)
            assert {key: item.offset for key, item in offsets.items()} == {one: 51, two: 50}
            (await admin.delete_groups([group])).unwrap()

    run(work())


def test_two_members_in_one_loop_hand_over_through_coroutines(cluster: str, topic: str) -> None:
    class Slow(RebalanceListener):
        def __init__(self, name: str, story: list[tuple[str, str, list[int]]]) -> None:
            self.name, self.story = name, story

        async def on_revoked(self, partitions: list[TopicPartition]) -> None:
            await asyncio.sleep(0.05)
            self.story.append((self.name, "revoked", [item.partition for item in partitions]))

        async def on_assigned(self, partitions: list[TopicPartition]) -> None:
            await asyncio.sleep(0.05)
            self.story.append((self.name, "assigned", [item.partition for item in partitions]))

    async def member(consumer: aio.Consumer, got: list[ConsumerRecord], is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            got += await consumer.poll(0.1)

    async def until(what: Any) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not what():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)

    async def work() -> None:
        await a_topic(cluster, topic, 3)
        story: list[tuple[str, str, list[int]]] = []
        got: list[ConsumerRecord] = []
        is_over = asyncio.Event()
        settings = {"group.id": f"g-{topic}", "partition.assignment.strategy": "cooperative-sticky"}
        async with (
            a_consumer(cluster, **settings) as anna,
            a_consumer(cluster, **settings) as bert,
            aio.Producer(bootstrap_servers=cluster) as producer,
        ):
            await anna.subscribe([topic], Slow("anna", story))
            tasks = [asyncio.create_task(member(anna, got, is_over))]
            await until(lambda: len(anna.assignment()) == 3)
            await bert.subscribe([topic], Slow("bert", story))
            tasks.append(asyncio.create_task(member(bert, got, is_over)))
            await until(lambda: (len(anna.assignment()), len(bert.assignment())) == (2, 1))
            for number in range(3):
                await producer.send_and_wait(topic, b"v", partition=number)
            await until(lambda: len(got) == 3)
            is_over.set()
            await asyncio.gather(*tasks)
        assert story[0] == ("anna", "assigned", [0, 1, 2])
        moved = story.index(("anna", "revoked", [2]))
        assert story.index(("bert", "assigned", [2])) > moved

    run(work())


def test_a_blocked_loop_loses_no_membership(cluster: str, topic: str) -> None:
    async def work() -> None:
        await a_topic(cluster, topic, 1)
        settings = {"group.id": f"g-{topic}", "session.timeout.ms": 500, "heartbeat.interval.ms": 100}
        async with a_consumer(cluster, topic, **settings) as consumer:
            while not consumer.assignment():
                await consumer.poll(0.1)
            before = consumer.health()
            time.sleep(1.2)  # noqa: ASYNC251  # this is the blocked loop
            await consumer.poll(0.1)
            after = consumer.health()
            assert (after.member_id, after.generation_id) == (before.member_id, before.generation_id)
            await consumer.commit({TopicPartition(topic, 0): 0})

    run(work())


def test_cancelling_a_poll_leaves_the_consumer_usable(cluster: str, topic: str) -> None:
    async def work() -> None:
        (partition,) = await a_topic(cluster, topic, 1)
        async with (
            a_consumer(cluster) as consumer,
            aio.Producer(bootstrap_servers=cluster) as producer,
        ):
            await consumer.assign([partition])
            waiting = asyncio.create_task(consumer.poll())
            await asyncio.sleep(0.05)
            with pytest.raises(ConcurrentAccessError):
                await consumer.poll(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await producer.send_and_wait(topic, b"v")
            assert [record.value for record in await read(consumer, 1)] == [b"v"]

    run(work())


def test_an_async_listener_commits_inside_close(cluster: str, topic: str) -> None:
    async def work() -> None:
        (partition,) = await a_topic(cluster, topic, 1)
        async with aio.Producer(bootstrap_servers=cluster) as producer:
            for number in range(4):
                await producer.send(topic, b"%d" % number, partition=0)

        class CommitsWhatItHas(RebalanceListener):
            async def on_revoked(self, partitions: list[TopicPartition]) -> None:
                await consumer.commit({item: await consumer.position(item) for item in partitions})

        consumer = a_consumer(cluster, **{"group.id": f"g-{topic}"})
        await consumer.subscribe([topic], CommitsWhatItHas())
        assert len(await read(consumer, 3)) == 3
        await consumer.close()
        async with a_consumer(cluster, **{"group.id": f"g-{topic}"}) as other:
            found = (await other.committed([partition]))[partition]
            assert found is not None
            assert found.offset == 3

    run(work())
