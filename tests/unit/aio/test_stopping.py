"""Closing an asyncio consumer while a task reads from it."""

from __future__ import annotations

import asyncio

import pytest

import klamm
from klamm import aio, testing
from klamm.errors import ConsumerStoppedError, IllegalStateError

PATIENCE_S = 20


async def read_until_stopped(consumer: aio.Consumer, reading: asyncio.Event) -> None:
    try:
        while True:
            reading.set()
            await consumer.poll()
    except ConsumerStoppedError:
        return


def run(broker: klamm.Broker, stops: str) -> list[str]:
    """Read in one task, close in another; what the reader saw."""
    seen: list[str] = []

    async def main() -> None:
        consumer = aio.Consumer(
            "t", bootstrap_servers=broker.bootstrap, group_id=f"g-{stops}", auto_offset_reset="earliest"
        )
        reading = asyncio.Event()

        async def read() -> None:
            if stops == "poll":
                await read_until_stopped(consumer, reading)
                seen.append("stopped")
            elif stops == "between":
                async for record in consumer:
                    seen.append(str(record.offset))
                    reading.set()
                    await asyncio.sleep(0.2)
            else:
                async for record in consumer:
                    seen.append(str(record.offset))
                    reading.set()
            seen.append("ended")

        task = asyncio.create_task(read())
        await reading.wait()
        await asyncio.sleep(0.05)
        await consumer.close()
        await task
        with pytest.raises(IllegalStateError, match="closed"):
            await consumer.poll()
        await consumer.close()

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))
    return seen


@pytest.mark.parametrize(
    ("stops", "expected"),
    [("poll", ["stopped", "ended"]), ("for", ["0", "1", "ended"]), ("between", ["0", "ended"])],
)
def test_a_task_that_reads_ends_when_another_closes_the_consumer(stops: str, expected: list[str]) -> None:
    with klamm.Broker() as broker:
        with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("t", b"0")
            producer.send("t", b"1")
        assert run(broker, stops) == expected


def test_a_call_that_no_broker_answers_ends_when_another_task_closes_the_consumer() -> None:
    async def main(broker: testing.Broker) -> None:
        consumer = aio.Consumer(bootstrap_servers=broker.bootstrap)
        await consumer.list_topics()
        broker.faults.lose("Metadata")
        asking = asyncio.create_task(consumer.list_topics())
        await asyncio.sleep(0)
        await consumer.close()
        with pytest.raises(IllegalStateError, match="closed"):
            await asking

    with testing.Broker() as broker:
        asyncio.run(asyncio.wait_for(main(broker), PATIENCE_S))
