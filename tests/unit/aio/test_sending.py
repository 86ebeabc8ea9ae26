"""`send_and_wait` returns a future that passes for a coroutine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

import pytest

import klamm
from klamm import aio
from klamm.client.producer.delivery import RecordMetadata
from klamm.errors import IllegalStateError, KlammTimeoutError

NOWHERE = "127.0.0.1:1"  # nobody listens there
LONG_MS = 600_000


@pytest.fixture(scope="module")
def broker() -> Iterator[klamm.Broker]:
    with klamm.Broker() as broker:
        yield broker


def run(
    broker: klamm.Broker,
    scenario: Callable[[aio.Producer], Awaitable[Any]],
    *,
    topic: str = "t",
    **settings: Any,
) -> None:
    """A scenario with a producer that knows its topic."""

    async def main() -> None:
        producer = aio.Producer(bootstrap_servers=broker.bootstrap, **settings)
        try:
            await producer.partitions_for(topic)
            await scenario(producer)
        finally:
            await producer.close(timeout=0)

    asyncio.run(main())


Sent = Coroutine[Any, Any, RecordMetadata]


async def awaited(sent: list[Sent]) -> list[RecordMetadata]:
    return [await item for item in sent]


async def gathered(sent: list[Sent]) -> list[RecordMetadata]:
    return list(await asyncio.gather(*sent))


async def as_tasks(sent: list[Sent]) -> list[RecordMetadata]:
    tasks = [asyncio.create_task(item) for item in sent]
    return [await task for task in tasks]


async def in_a_group(sent: list[Sent]) -> list[RecordMetadata]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(item) for item in sent]
    return [task.result() for task in tasks]


async def with_a_limit(sent: list[Sent]) -> list[RecordMetadata]:
    return [await asyncio.wait_for(item, 60) for item in sent]


@pytest.mark.parametrize("collect", [awaited, gathered, as_tasks, in_a_group, with_a_limit])
def test_every_way_to_wait_returns_where_the_records_went(
    broker: klamm.Broker, collect: Callable[[list[Sent]], Awaitable[list[RecordMetadata]]]
) -> None:
    async def scenario(producer: aio.Producer) -> None:
        found = await collect([producer.send_and_wait("t", str(number)) for number in range(20)])
        assert len({(item.partition, item.offset) for item in found}) == 20
        assert [item.offset for item in found] == sorted(item.offset for item in found)

    run(broker, scenario)


def test_no_task_is_made_for_a_record(broker: klamm.Broker) -> None:
    async def scenario(producer: aio.Producer) -> None:
        sent = [producer.send_and_wait("t", b"x") for _ in range(100)]
        assert len(asyncio.all_tasks()) == 1
        waiting = asyncio.gather(*sent)
        assert len(asyncio.all_tasks()) == 1
        await waiting

    run(broker, scenario)


def test_one_call_into_the_loop_settles_a_batch(
    broker: klamm.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(producer: aio.Producer) -> None:
        loop = asyncio.get_running_loop()
        calls = 0
        call = loop.call_soon_threadsafe

        def counted(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            return call(*arguments, **options)

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        sent = [producer.send_and_wait("one", b"x", partition=0) for _ in range(500)]
        producer._producer._accumulator.begin_flush()
        await asyncio.gather(*sent)
        assert calls == 1

    run(broker, scenario, topic="one", linger_ms=LONG_MS, delivery_timeout_ms=2 * LONG_MS)


def test_an_error_is_raised_where_it_is_awaited(broker: klamm.Broker) -> None:
    async def scenario(producer: aio.Producer) -> None:
        wrong: Any = 7
        found = await asyncio.gather(
            producer.send_and_wait("t", b"x"), producer.send_and_wait("t", wrong), return_exceptions=True
        )
        assert isinstance(found[0], RecordMetadata)
        assert isinstance(found[1], TypeError)
        await producer.close()
        late = producer.send_and_wait("t", b"x")
        with pytest.raises(IllegalStateError, match="closed"):
            await late

    run(broker, scenario)


def test_cancelling_one_that_waits_leaves_the_others(broker: klamm.Broker) -> None:
    async def scenario(producer: aio.Producer) -> None:
        first, second, third = (producer.send_and_wait("t", b"x", partition=0) for _ in range(3))
        impatient = asyncio.create_task(first)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(second, 0)
        await asyncio.sleep(0)
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        producer._producer._accumulator.begin_flush()
        assert (await third).offset >= 2  # the other two are sent all the same

    run(broker, scenario, linger_ms=LONG_MS, delivery_timeout_ms=2 * LONG_MS)


def test_a_record_that_must_wait_for_metadata_does_so_beside_the_loop() -> None:
    async def scenario() -> None:
        async with aio.Producer(bootstrap_servers=NOWHERE, max_block_ms=50) as producer:
            sent = producer.send_and_wait("t", b"x")
            with pytest.raises(KlammTimeoutError, match="no metadata of topic t"):
                await sent
            given_up = producer.send_and_wait("t", b"x")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(given_up, 0)

    asyncio.run(scenario())


def test_without_a_running_loop_it_is_a_coroutine(broker: klamm.Broker) -> None:
    producer = aio.Producer(bootstrap_servers=broker.bootstrap)
    assert asyncio.run(producer.send_and_wait("t", b"x")).topic == "t"
    asyncio.run(producer.close())
