"""What does one transaction cost inside the broker, from the bytes that came to the bytes that leave?

No sockets: requests as librdkafka sends them are handed to connections, responses only wake their producer.
A transaction is AddPartitionsToTxn, a Produce to each of two partitions, and EndTxn. With --v2 it is what
franz-go sends: one Produce to both partitions, which adds them, and EndTxn. The CPU time of the broker's
thread counts, which does not include waiting for the disk; the best of many bursts is what the code costs,
the median shows what the machine was busy with besides. With --count, the bytecodes by function.

    python -m bench.transaction_path [--producers 10] [--bursts 200] [--v2] [--count] [--folder DIRECTORY]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from random import Random
from typing import Any

from bench.commit_path import Bytecodes
from klamm.broker.broker import BrokerNode
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.embedded import new_event_loop
from klamm.broker.net.connection import Connection
from klamm.broker.storage import open_storage
from klamm.clock import SystemClock
from klamm.protocol.api import ApiKey
from klamm.protocol.codec import request_encoder, response_decoder
from klamm.protocol.headers import request_frame
from klamm.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from klamm.protocol.messages.create_topics import CreatableTopic
from klamm.protocol.messages.end_txn import EndTxnRequest
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest
from klamm.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.records.record import Record, encode_batch

RECORDS = 5  # in each of two partitions
TRANSACTIONS = 10  # of each producer in a burst
HEAD_BYTES = 8  # size and correlation id


class Answers(asyncio.Transport):
    """Collects responses."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived: asyncio.Queue[bytes] = asyncio.Queue()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default

    def write(self, data: Any) -> None:
        position = 0
        while position < len(data):
            end = position + 4 + int.from_bytes(data[position : position + 4], "big")
            self.arrived.put_nowait(data[position:end])
            position = end

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))


class Channel:
    """A connection of a client."""

    def __init__(self, broker: BrokerNode) -> None:
        self._connection: Connection = broker.server.plain_connection("PLAINTEXT")
        self._answers = Answers()
        self._connection.connection_made(self._answers)

    async def ask(self, frames: bytes, count: int = 1) -> list[bytes]:
        """Send requests together, and wait for their responses."""
        self._connection.data_received(frames)
        return [await self._answers.arrived.get() for _ in range(count)]

    def close(self) -> None:
        self._connection.connection_lost(None)


class TransactionalProducer:
    """A producer of one transaction after the other."""

    def __init__(self, broker: BrokerNode, name: str, *, is_v2: bool) -> None:
        self._name = name
        topic = broker.services.image.topic("t")
        assert topic is not None
        self._topic_id = topic.topic_id
        self._is_v2 = is_v2
        self._epoch = 0
        self._coordinator, self._leader = Channel(broker), Channel(broker)
        self._producer_id = -1
        self._sequence = 0
        self._next: list[list[bytes]] = []  # requests of the next transactions
        self._responses: list[list[bytes]] = []

    @property
    def _produce_version(self) -> int:
        return 13 if self._is_v2 else 10

    @property
    def _end_version(self) -> int:
        return 5 if self._is_v2 else 1

    async def init(self) -> None:
        """Get a producer id."""
        frame = a_frame(ApiKey.INIT_PRODUCER_ID, 1, InitProducerIdRequest(self._name, 60_000))
        while self._producer_id < 0:  # the coordinator's topic is being created, or loaded
            (body,) = await self._coordinator.ask(frame)
            self._producer_id = response_decoder(ApiKey.INIT_PRODUCER_ID, 1)(body, HEAD_BYTES).producer_id
            await asyncio.sleep(0.01)

    def prepare(self, count: int, timestamp_ms: int) -> None:
        """Encode the requests of as many transactions."""
        topics = [AddPartitionsToTxnTopic("t", [0, 1])]
        for _ in range(count):
            identity = (self._name, self._producer_id, self._epoch)
            added = a_frame(ApiKey.ADD_PARTITIONS_TO_TXN, 0, AddPartitionsToTxnRequest([], *identity, topics))
            ended = a_frame(ApiKey.END_TXN, self._end_version, EndTxnRequest(*identity, committed=True))
            records = [Record(number, timestamp_ms, None, bytes(100)) for number in range(RECORDS)]
            batch = encode_batch(
                records,
                producer_id=self._producer_id,
                producer_epoch=self._epoch,
                base_sequence=self._sequence,
                transactional=True,
            )
            if self._is_v2:
                self._epoch += 1  # with which the sequence begins again
            else:
                self._sequence += RECORDS
            both = [PartitionProduceData(number, batch) for number in range(2)]
            produced = b"".join(
                a_frame(
                    ApiKey.PRODUCE,
                    self._produce_version,
                    ProduceRequest(
                        self._name, -1, 30_000, [TopicProduceData(self._topic_id, "t", partition_data=data)]
                    ),
                )
                for data in ([both] if self._is_v2 else [[each] for each in both])
            )
            self._next.append([added, produced, ended])

    async def run(self) -> None:
        """Run the transactions that are prepared."""
        for added, produced, ended in self._next:
            while not self._is_v2 and any(errors_of_added(*(await self._coordinator.ask(added)))):  # noqa: ASYNC110 - as a client does
                await asyncio.sleep(0)  # the markers of the last transaction are late
            count = 1 if self._is_v2 else 2
            self._responses.append(
                [*await self._leader.ask(produced, count), *await self._coordinator.ask(ended)]
            )
        self._next.clear()

    def check(self) -> None:
        """Every response was without error."""
        for *produced, ended in self._responses:
            errors = []
            for body in produced:
                decode = response_decoder(ApiKey.PRODUCE, self._produce_version)
                (topic,) = decode(body, HEAD_BYTES + 1).responses
                errors += [each.error_code for each in topic.partition_responses]
            decode = response_decoder(ApiKey.END_TXN, self._end_version)
            errors.append(decode(ended, HEAD_BYTES + self._is_v2).error_code)
            assert not any(errors), errors
        self._responses.clear()

    def close(self) -> None:
        self._coordinator.close()
        self._leader.close()


def errors_of_added(body: bytes) -> list[int]:
    """The error codes of a response to AddPartitionsToTxn."""
    decoded = response_decoder(ApiKey.ADD_PARTITIONS_TO_TXN, 0)(body, HEAD_BYTES)
    return [
        each.partition_error_code
        for topic in decoded.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    ]


def a_frame(key: ApiKey, version: int, request: Any) -> bytes:
    return b"".join(request_frame(key, version, 1, "bench", request_encoder(key, version)(request)))


async def measure(
    folder: str, producers: int, bursts: int, *, is_v2: bool, is_counting: bool = False
) -> tuple[list[float], float]:
    """Microseconds of CPU per transaction in each burst, and rounds of the journal per transaction."""
    clock = SystemClock()
    config = BrokerConfig.from_settings({"log.dirs": folder})
    storage = open_storage(config, clock=clock, random=Random(1), sleep=time.sleep)
    broker = BrokerNode(config, clock=clock, random=Random(1), storage=storage, sleep=time.sleep)
    await broker.start(listen=False)
    await broker.services.topics.create([CreatableTopic("t", 2, 1)])
    broker.services.transactions.topic.create()
    everyone = [TransactionalProducer(broker, f"bench-{number}", is_v2=is_v2) for number in range(producers)]
    for producer in everyone:
        await producer.init()
    took_us = []
    flusher = broker.services.flusher
    rounds = flusher.journal_rounds
    for _ in range(bursts):
        for producer in everyone:
            producer.prepare(TRANSACTIONS, clock.timestamp_ms())
        start = time.thread_time()
        await asyncio.gather(*(producer.run() for producer in everyone))
        took_us.append((time.thread_time() - start) / (TRANSACTIONS * producers) * 1e6)
        for producer in everyone:
            producer.check()
    rounds = flusher.journal_rounds - rounds
    if is_counting:
        for producer in everyone:
            producer.prepare(TRANSACTIONS, clock.timestamp_ms())
        with Bytecodes() as counted:
            await asyncio.gather(*(producer.run() for producer in everyone))
        counted.print(TRANSACTIONS * producers, most=100)
    for producer in everyone:
        producer.close()
    await broker.stop()
    return took_us, rounds / (bursts * TRANSACTIONS * producers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--producers", type=int, default=10)
    parser.add_argument("--bursts", type=int, default=200)
    parser.add_argument("--v2", action="store_true", help="transactions v2")
    parser.add_argument("--count", action="store_true", help="count the bytecodes of a burst by function")
    parser.add_argument("--folder", help="where the broker's data is; a temporary one if absent")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        loop = new_event_loop()
        took_us, rounds = loop.run_until_complete(
            measure(folder, given.producers, given.bursts, is_v2=given.v2, is_counting=given.count)
        )
    took_us.sort()
    print(
        f"{given.producers} producers: best {took_us[0]:.0f} us of CPU per transaction, "
        f"a tenth of the bursts below {took_us[len(took_us) // 10]:.0f} us, "
        f"median {statistics.median(took_us):.0f} us; {rounds:.2f} rounds of the journal per transaction"
    )


if __name__ == "__main__":
    main()
