"""The asyncio face: the same consumer, with tasks for callers."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from klamm.aio import Consumer
from klamm.client.consumer.consumer_operations import ConsumerOperations
from klamm.client.consumer.polling.loop_host import LoopSignal, TaskClaim
from klamm.client.consumer.settings import parse
from klamm.clock import SystemClock
from klamm.errors import ConcurrentAccessError, IllegalStateError, InvalidGroupIdError
from klamm.protocol.api import ApiKey
from klamm.protocol.types import TopicPartition
from unit.client.consumer.fake_cluster import BASE_PORT, partitions
from unit.client.consumer.world import World, WorldHost

ALL = partitions("t", [0, 1])
NOWHERE = "127.0.0.1:1"  # nobody listens there


@pytest.fixture
def world() -> World:
    world = World()
    world.cluster.create("t", 2)
    world.cluster.produce(ALL[0], b"0", b"1", b"2")
    return world


def a_consumer(world: World, **settings: Any) -> Consumer:
    settings.setdefault("bootstrap_servers", f"127.0.0.1:{BASE_PORT + 1}")
    parsed, checked = parse(None, {"auto_offset_reset": "earliest", **settings}, 1)
    host = WorldHost(world, parsed, checked)
    world.hosts.append(host)
    made = Consumer.__new__(Consumer)
    made._begin(ConsumerOperations(host, checked))
    return made


def test_records_are_awaited_and_iterated_over(world: World) -> None:
    async def scenario() -> list[bytes | None]:
        values = []
        async with a_consumer(world, group_id="g") as consumer:
            await consumer.subscribe(["t"])
            first = await consumer.getone()
            assert first is not None
            values.append(first.value)
            async for record in consumer:
                values.append(record.value)
                await consumer.commit()
                if len(values) == 3:
                    break
            assert await consumer.position(ALL[0]) == 3
            assert (await consumer.committed([ALL[0]]))[ALL[0]] is not None
            assert await consumer.getone(0) is None
            assert await consumer.getmany(timeout_ms=10) == {}
        return values

    assert asyncio.run(scenario()) == [b"0", b"1", b"2"]
    assert len(world.cluster.requests(ApiKey.LEAVE_GROUP)) == 1


def test_a_listener_may_be_a_coroutine(world: World) -> None:
    heard: list[list[TopicPartition]] = []

    async def assigned(given: list[TopicPartition]) -> None:
        await asyncio.sleep(0)
        heard.append(given)

    async def scenario() -> None:
        consumer = a_consumer(world, group_id="g")
        await consumer.subscribe(["t"], on_assign=assigned)
        await consumer.poll(1)
        await consumer.close()

    asyncio.run(scenario())
    assert heard == [ALL]


def test_a_loop_that_is_blocked_for_twice_the_session_loses_no_membership(world: World) -> None:
    async def scenario() -> None:
        consumer = a_consumer(world, group_id="g", session_timeout_ms=10_000)
        await consumer.subscribe(["t"])
        await consumer.poll(1)
        world.pass_time(20_000)  # no task had a turn
        await consumer.poll(1)
        assert len(consumer.rebalances()) == 1
        assert consumer.health().is_healthy

    asyncio.run(scenario())
    assert list(world.cluster.group.members) == ["member-1"]


def test_a_cancelled_poll_goes_on_with_its_callback_in_the_next(world: World) -> None:
    calls = 0

    async def assigned(_partitions: list[TopicPartition]) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise asyncio.CancelledError

    async def scenario() -> None:
        consumer = a_consumer(world, group_id="g")
        await consumer.subscribe(["t"], on_assign=assigned)
        with pytest.raises(asyncio.CancelledError):
            await consumer.poll(1)
        assert len(await consumer.poll(1)) == 3

    asyncio.run(scenario())
    assert calls == 2


def test_two_tasks_may_not_read_but_others_may_look(world: World) -> None:
    async def scenario() -> None:
        async with Consumer(bootstrap_servers=NOWHERE, group_id="g") as consumer:
            await consumer.assign([ALL[0]])
            reading = asyncio.create_task(consumer.poll(60), name="the reader")
            await asyncio.sleep(0)
            with pytest.raises(ConcurrentAccessError, match="the reader"):
                await consumer.getone()
            assert consumer.assignment() == {ALL[0]}
            assert consumer.paused() == set()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            await consumer.unsubscribe()
            await consumer.close(0)

    asyncio.run(scenario())


def test_a_consumer_belongs_to_one_loop(world: World) -> None:
    consumer = a_consumer(world)

    async def assign() -> None:
        await consumer.assign([ALL[0]])

    asyncio.run(assign())
    with pytest.raises(IllegalStateError, match="event loop"):
        asyncio.run(assign())


def test_a_constructor_that_fails_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    with pytest.raises(InvalidGroupIdError):
        Consumer("t", bootstrap_servers=NOWHERE)
    assert threading.active_count() == before


def test_the_bell_wakes_every_task_that_waits_also_from_another_thread() -> None:
    async def scenario() -> None:
        signal = LoopSignal(SystemClock())

        async def waits() -> str:
            signal.clear()
            await signal.wait(None)
            return "woken"

        tasks = [asyncio.create_task(waits()) for _ in range(3)]
        await asyncio.sleep(0)
        thread = threading.Thread(target=signal.set)
        thread.start()
        assert await asyncio.gather(*tasks) == ["woken"] * 3
        thread.join()

    asyncio.run(scenario())


def test_a_wake_up_between_looking_and_waiting_is_not_missed() -> None:
    async def scenario() -> None:
        clock = SystemClock()
        signal = LoopSignal(clock)
        signal.clear()
        signal.set()
        await signal.wait(None)

        async def another() -> None:
            signal.clear()

        signal.clear()
        signal.set()
        await asyncio.create_task(another())  # its clearing is not ours
        await signal.wait(None)
        signal.clear()
        due_at_ms = clock.now_ms() + 1
        await signal.wait(due_at_ms)  # each was received once
        assert clock.now_ms() >= due_at_ms

    asyncio.run(scenario())


def test_a_wait_ends_when_its_time_comes() -> None:
    async def scenario() -> None:
        clock = SystemClock()
        signal = LoopSignal(clock)
        signal.clear()
        due_at_ms = clock.now_ms() + 1
        await signal.wait(due_at_ms)
        assert clock.now_ms() >= due_at_ms

    asyncio.run(scenario())


def test_a_task_may_enter_again_and_another_when_it_is_out() -> None:
    async def scenario() -> None:
        claim = TaskClaim()
        with claim, claim:
            pass

        async def enter() -> bool:
            with claim:
                return claim.is_held_by_another

        assert not claim.is_held_by_another
        assert not await asyncio.create_task(enter())
        with claim:
            assert not claim.is_held_by_another

    asyncio.run(scenario())
