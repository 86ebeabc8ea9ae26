"""What does one Fetch cost inside the broker, from the bytes that came to the bytes that leave?

No socket, no disk: a log in memory is fetched from its start again and again, what is sent is thrown away.
The best of many fetches is what the code costs; the median shows what the machine was busy with besides.

    python bench/fetch_path.py [--fetches 2000] [--bytes 1048576]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from random import Random
from typing import Any

from klamm.broker.broker import BrokerNode
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.embedded import new_event_loop
from klamm.broker.storage import open_storage
from klamm.clock import SystemClock
from klamm.protocol.api import ApiKey
from klamm.protocol.codec import request_encoder
from klamm.protocol.headers import request_frame
from klamm.protocol.messages.create_topics import CreatableTopic
from klamm.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from klamm.records.record import Record, encode_batch

VERSION = 11
BATCH_BYTES = 16 * 1024


class Nowhere(asyncio.Transport):
    """Accepts everything, keeps nothing but the count."""

    sent_bytes = 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def is_closing(self) -> bool:
        return False

    def write(self, data: Any) -> None:
        self.sent_bytes += len(data)

    def writelines(self, list_of_data: Any) -> None:
        self.sent_bytes += sum(map(len, list_of_data))


def a_request(max_bytes: int) -> bytes:
    wanted = FetchPartition(0, fetch_offset=0, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=max_bytes,
        session_epoch=-1,
        topics=[FetchTopic(topic="t", partitions=[wanted])],
    )
    body = request_encoder(ApiKey.FETCH, VERSION)(request)
    return b"".join(request_frame(ApiKey.FETCH, VERSION, 1, "bench", body))


async def measure(fetches: int, max_bytes: int) -> list[float]:
    """Microseconds of each fetch."""
    clock, config = SystemClock(), BrokerConfig()
    storage = open_storage(config, clock=clock, random=Random(1), sleep=time.sleep, in_memory=True)
    broker = BrokerNode(config, clock=clock, random=Random(1), storage=storage, sleep=time.sleep)
    await broker.start(listen=False)
    await broker.services.topics.create([CreatableTopic("t", 1, 1)])
    partition = broker.services.partitions.get("t", 0)
    assert partition is not None
    batch = encode_batch([Record(0, clock.timestamp_ms(), None, bytes(BATCH_BYTES))])
    for _ in range(2 * max_bytes // BATCH_BYTES + 2):
        partition.log.append(batch, now_ms=clock.now_ms(), timestamp_ms=clock.timestamp_ms())
    broker.services.flusher.mark(partition)
    await broker.services.flusher.drain()
    connection, transport = broker.server.plain_connection("PLAINTEXT"), Nowhere()
    connection.connection_made(transport)
    request = a_request(max_bytes)
    took_us = []
    for number in range(fetches):
        start = time.perf_counter()
        connection.data_received(request)
        while transport.sent_bytes <= number * (max_bytes - BATCH_BYTES):  # noqa: ASYNC110 - more is sent
            await asyncio.sleep(0)
        took_us.append((time.perf_counter() - start) * 1e6)
        await asyncio.sleep(0)
    connection.connection_lost(None)
    await broker.stop()
    return took_us


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fetches", type=int, default=2000)
    parser.add_argument("--bytes", type=int, default=1 << 20)
    given = parser.parse_args()
    took_us = sorted(new_event_loop().run_until_complete(measure(given.fetches, given.bytes)))
    best, median = took_us[0], statistics.median(took_us)
    print(f"best {best:.1f} us per fetch ({given.bytes / best:,.0f} MB/s), median {median:.1f} us")


if __name__ == "__main__":
    main()
