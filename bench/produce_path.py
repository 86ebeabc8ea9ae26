"""What does one small Produce cost inside the broker, from the bytes that came to the bytes that leave?

No socket, no disk: bursts of pipelined requests are handed to a connection, answers are thrown away. The best
of many bursts is what the code costs; the median shows what the machine was busy with besides. Producers
without an id, with one, and with an open transaction take turns, burst by burst.

    python bench/produce_path.py [--bursts 400] [--window 64] [--bytes 100] [--producer idempotent]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Sequence
from random import Random
from typing import Any

from klamm.broker.broker import BrokerNode
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.embedded import new_event_loop
from klamm.broker.net.connection import Connection
from klamm.broker.storage import open_storage
from klamm.clock import SystemClock
from klamm.protocol.api import ApiKey
from klamm.protocol.codec import request_encoder
from klamm.protocol.headers import request_frame
from klamm.protocol.messages.create_topics import CreatableTopic
from klamm.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.records.record import Record, encode_batch

VERSION = 10  # what librdkafka speaks
PRODUCERS = ("plain", "idempotent", "transactional")
# The coordinator is asked once per transaction and partition; here the cost of every other batch counts.
SETTINGS = {"transaction.partition.verification.enable": "false"}


class Nowhere(asyncio.Transport):
    """Takes everything, keeps nothing."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def write(self, data: Any) -> None:
        pass

    def writelines(self, list_of_data: Any) -> None:
        pass


def a_request(producer: str, sequence: int, size_bytes: int, timestamp_ms: int) -> bytes:
    record = Record(0, timestamp_ms, None, bytes(size_bytes))
    is_transactional = producer == "transactional"
    if producer == "plain":
        batch = encode_batch([record])
    else:
        batch = encode_batch(
            [record],
            producer_id=1,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=is_transactional,
        )
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(0, batch)])
    request = ProduceRequest("bench" if is_transactional else None, -1, 30_000, [data])
    body = request_encoder(ApiKey.PRODUCE, VERSION)(request)
    return b"".join(request_frame(ApiKey.PRODUCE, VERSION, sequence, "bench", body))


async def measure(
    producers: Sequence[str], bursts: int, window: int, size_bytes: int
) -> dict[str, list[float]]:
    """Microseconds of CPU per request of each burst, by producer; they take turns."""
    clock, config = SystemClock(), BrokerConfig.from_settings(SETTINGS)
    brokers: list[BrokerNode] = []
    connections: dict[str, Connection] = {}
    for producer in producers:
        storage = open_storage(config, clock=clock, random=Random(1), sleep=time.sleep, in_memory=True)
        broker = BrokerNode(config, clock=clock, random=Random(1), storage=storage, sleep=time.sleep)
        await broker.start(listen=False)
        await broker.services.topics.create([CreatableTopic("t", 1, 1)])
        connections[producer] = broker.server.plain_connection("PLAINTEXT")
        connections[producer].connection_made(Nowhere())
        brokers.append(broker)
    took_us: dict[str, list[float]] = {producer: [] for producer in producers}
    for burst in range(bursts):
        for producer, connection in connections.items():
            data = b"".join(
                a_request(producer, burst * window + number, size_bytes, clock.timestamp_ms())
                for number in range(window)
            )
            start = time.thread_time()
            connection.data_received(data)
            took_us[producer].append((time.thread_time() - start) / window * 1e6)
            await asyncio.sleep(0)
    for connection in connections.values():
        connection.connection_lost(None)
    for broker in brokers:
        await broker.stop()
    return took_us


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bursts", type=int, default=400)
    parser.add_argument("--window", type=int, default=64)
    parser.add_argument("--bytes", type=int, default=100)
    parser.add_argument("--producer", choices=PRODUCERS, help="one of them; all in turn if absent")
    given = parser.parse_args()
    producers = PRODUCERS if given.producer is None else (given.producer,)
    measured = new_event_loop().run_until_complete(
        measure(producers, given.bursts, given.window, given.bytes)
    )
    for producer, took_us in measured.items():
        took_us.sort()
        tenth, median = took_us[len(took_us) // 10], statistics.median(took_us)
        print(
            f"{producer:13} best {took_us[0]:.1f} us of CPU per request ({1e6 / took_us[0]:,.0f}/s), "
            f"a tenth of the bursts below {tenth:.1f} us, median {median:.1f} us"
        )


if __name__ == "__main__":
    main()
