"""The same client under asyncio: a pipeline of two topics, one task each side.

Run it: `python examples/asyncio_client.py`. It brings its own broker, in this process and in memory.
"""

# ruff: noqa: T201 - an example shows its results

from __future__ import annotations

import asyncio

import klamm
import klamm.aio

COUNT = 20


async def produce(bootstrap: str) -> None:
    async with klamm.aio.Producer(bootstrap_servers=bootstrap, linger_ms=5) as producer:
        # `await send` waits only for metadata and memory; awaiting its future waits for the broker.
        sent = [await producer.send("celsius", str(degrees)) for degrees in range(COUNT)]
        places = [await future for future in sent]
        print("sent up to offset", places[-1].offset)


async def convert(bootstrap: str) -> None:
    """Read, transform, write; commit what was written."""
    async with (
        klamm.aio.Consumer(
            "celsius",
            bootstrap_servers=bootstrap,
            group_id="converters",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
        klamm.aio.Producer(bootstrap_servers=bootstrap) as producer,
    ):
        done = 0
        while done < COUNT:
            records = await consumer.poll(1.0)
            for record in records:
                await producer.send("fahrenheit", str(int(record.value or 0) * 9 / 5 + 32))
                done += 1
            await producer.flush()
            await consumer.commit()


async def show(bootstrap: str) -> None:
    async with klamm.aio.Consumer(
        "fahrenheit", bootstrap_servers=bootstrap, group_id="readers", auto_offset_reset="earliest"
    ) as consumer:
        degrees: list[float] = []
        async for record in consumer:
            degrees.append(float(record.value or 0))
            if len(degrees) == COUNT:
                break
        print("the warmest was", max(degrees))


async def main() -> None:
    with klamm.Broker() as broker:
        async with asyncio.timeout(60):
            await asyncio.gather(produce(broker.bootstrap), convert(broker.bootstrap), show(broker.bootstrap))


if __name__ == "__main__":
    asyncio.run(main())
