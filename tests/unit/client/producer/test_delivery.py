"""Awaiting what becomes of records."""

from __future__ import annotations

import asyncio

import pytest

from klamm.client.producer.delivery import Delivery, RecordMetadata
from klamm.errors import BrokerError
from klamm.protocol.errors import ErrorCode
from unit.client.producer.world import World


async def place(delivery: Delivery) -> RecordMetadata:
    return await delivery


def test_many_who_await_one_batch_are_woken_with_one_call() -> None:
    async def main() -> None:
        world = World(linger_ms=5)
        deliveries = [world.send(str(number), run=False) for number in range(10)]
        tasks = [asyncio.create_task(place(delivery)) for delivery in deliveries]
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        calls = 0
        call = loop.call_soon_threadsafe

        def counted(*arguments: object) -> object:
            nonlocal calls
            calls += 1
            return call(*arguments)  # type: ignore[arg-type]  # handed on as they came

        loop.call_soon_threadsafe = counted  # type: ignore[method-assign,assignment]  # watched for this test
        world.advance(5)
        world.answer(world.requests[0], base_offset=40)
        assert [(await task).offset for task in tasks] == list(range(40, 50))
        assert calls == 1

    asyncio.run(main())


def test_a_settled_record_is_there_at_once_and_a_failed_one_raises() -> None:
    async def main() -> None:
        world = World()
        delivery = world.send("a")
        world.answer(world.requests[0], base_offset=3)
        assert (await delivery).offset == 3
        failed = world.send("b")
        world.answer(world.requests[0], ErrorCode.invalid_record)
        with pytest.raises(BrokerError):
            await failed
        assert [batch.unseen_failures() for batch in world.accumulator.begin_flush()] == [[]]

    asyncio.run(main())


def test_whoever_gave_up_waiting_does_not_keep_the_others_from_hearing() -> None:
    async def main() -> None:
        world = World(linger_ms=5)
        first, second = (asyncio.create_task(place(world.send(name, run=False))) for name in "ab")
        await asyncio.sleep(0)
        first.cancel()
        world.advance(5)
        world.answer(world.requests[0], base_offset=7)
        assert (await second).offset == 8
        assert first.cancelled()

    asyncio.run(main())


def test_a_loop_that_is_gone_harms_nobody() -> None:
    world = World()

    async def leave() -> None:
        waiting = asyncio.create_task(place(world.send("a")))
        await asyncio.sleep(0)
        waiting.cancel()

    asyncio.run(leave())
    delivery = world.send("b")
    world.answer(world.requests[0])
    world.answer(world.requests[0], base_offset=1)
    assert delivery.result(0).offset == 1
