"""What does one small Produce cost inside the broker, from the bytes that came to the bytes that leave?

No socket, no disk: bursts of pipelined requests are handed to a connection, answers are thrown away. The best
of many bursts is what the code costs; the median shows what the machine was busy with besides. Producers
without an id, with one, and with an open transaction are measured in turn.

    python bench/produce_path.py [--bursts 400] [--window 64] [--bytes 100] [--producer idempotent]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from random import Random
from typing import Any

from klamm.broker.broker import Broker
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.embedded import new_event_loop
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


async def measure(producer: str, bursts: int, window: int, size_bytes: int) -> list[float]:
    """Microseconds per request of each burst."""
    clock, config = SystemClock(), BrokerConfig.from_settings(SETTINGS)
    storage = open_storage(config, clock=clock, random=Random(1), sleep=time.sleep, in_memory=True)
    broker = Broker(config, clock=clock, random=Random(1), storage=storage, sleep=time.sleep)
    await broker.start(listen=False)
    await broker.services.topics.create([CreatableTopic("t", 1, 1)])
    connection = broker.server.connection("PLAINTEXT")
    connection.connection_made(Nowhere())
    took_us = []
    for burst in range(bursts):
        data = b"".join(
            a_request(producer, burst * window + number, size_bytes, clock.timestamp_ms())
            for number in range(window)
        )
        start = time.perf_counter()
        connection.data_received(data)
        took_us.append((time.perf_counter() - start) / window * 1e6)
        await asyncio.sleep(0)
    connection.connection_lost(None)
    await broker.stop()
    return took_us


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bursts", type=int, default=400)
    parser.add_argument("--window", type=int, default=64)
    parser.add_argument("--bytes", type=int, default=100)
    parser.add_argument("--producer", choices=PRODUCERS, help="one of them; all in turn if absent")
    given = parser.parse_args()
    loop = new_event_loop()
    for producer in PRODUCERS if given.producer is None else (given.producer,):
        measured = measure(producer, given.bursts, given.window, given.bytes)
        took_us = sorted(loop.run_until_complete(measured))
        best, median = took_us[0], statistics.median(took_us)
        print(f"{producer:13} best {best:.1f} us per request ({1e6 / best:,.0f}/s), median {median:.1f} us")


if __name__ == "__main__":
    main()
