"""A producer without threads or sockets: the test is the broker and moves the clock."""

from __future__ import annotations

from random import Random
from typing import Any

from klamm.client.producer.accumulator import Accumulator
from klamm.client.producer.delivery import Delivery
from klamm.client.producer.partitioner import StickyPartitioner
from klamm.client.producer.sender import Sender
from klamm.client.producer.settings import ProducerSettings, parse
from klamm.client.runtime import Core
from klamm.clock import ManualClock
from klamm.net.metadata import MetadataConfig
from klamm.net.network import NetworkConfig
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.init_producer_id import InitProducerIdResponse
from klamm.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from klamm.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from klamm.protocol.types import TopicPartition
from klamm.records.batch import BatchHeader, parse_header
from klamm.records.record import Record, decode_records
from unit.client.fakes import Asked, FakeTransport

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
TOPIC_ID = b"t" * 16


class World:
    """One topic with two partitions, led by one broker, and a producer that has not sent anything."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        self.transport = FakeTransport()
        self.settings: ProducerSettings = parse({"bootstrap.servers": "127.0.0.1:9092"}, settings)[1]
        self.core = Core(
            NetworkConfig((("127.0.0.1", 9092),), "test"),
            MetadataConfig(),
            transport=self.transport,
            random=Random(3),
            now_ms=0,
        )
        self.wakes = 0
        sticky = StickyPartitioner(self.settings.batch_size, is_adaptive=True, random=Random(3))
        self.accumulator = Accumulator(self.settings, self.clock, self._wake, sticky)
        self.sender = self.make_sender()
        self.core.components.append(self.sender)
        self.core.metadata.want(["t"])
        self.next_producer_id = 4001
        self.run()

    def make_sender(self) -> Sender:
        return Sender(self.core, self.settings, self.accumulator, choose=lambda topic, key, value: None)

    def _wake(self) -> None:
        self.wakes += 1

    def run(self) -> None:
        """Let everything happen that can: connections, metadata, producer ids."""
        for _ in range(6):
            self.core.tick(self.clock.now_ms())
            self.transport.open_all()
            for asked in list(self.transport.asked):
                waiting = next(item for item in self.transport.asked if item.link is asked.link)
                if waiting is not asked:
                    continue  # a connection answers in order
                if self.answers_itself(asked):
                    self.transport.asked.remove(asked)
                elif asked.api_key is ApiKey.METADATA:
                    self.transport.asked.remove(asked)
                    asked.answer(metadata())
                elif asked.api_key is ApiKey.INIT_PRODUCER_ID:
                    self.transport.asked.remove(asked)
                    asked.answer(InitProducerIdResponse(producer_id=self.next_producer_id))
                    self.next_producer_id += 1

    def answers_itself(self, asked: Asked) -> bool:
        """Whether somebody else than the test has answered."""
        return False

    def advance(self, duration_ms: int) -> None:
        self.clock.advance(duration_ms)
        self.run()

    def send(self, value: str, partition: TopicPartition = T0, *, run: bool = True) -> Delivery:
        raw = value.encode()
        topic = self.core.metadata.cluster.topics[partition.topic]
        delivery = self.accumulator.append(topic, partition.partition, (1000, None, raw, ()), due_at_ms=0)
        if run:
            self.run()
        return delivery

    @property
    def requests(self) -> list[Asked]:
        """Produce requests that wait for an answer, oldest first."""
        return [asked for asked in self.transport.asked if asked.api_key is ApiKey.PRODUCE]

    def answer(
        self, asked: Asked, error_code: int = ErrorCode.none, base_offset: int = 0, **fields: Any
    ) -> None:
        self.transport.asked.remove(asked)
        topics = [
            TopicProduceResponse(
                topic_id=topic.topic_id,
                name=topic.name,
                partition_responses=[
                    PartitionProduceResponse(
                        index=item.index, error_code=error_code, base_offset=base_offset, **fields
                    )
                    for item in topic.partition_data
                ],
            )
            for topic in asked.request.topic_data
        ]
        asked.answer(ProduceResponse(responses=topics))
        self.run()


def metadata() -> MetadataResponse:
    partitions = [
        MetadataResponsePartition(
            partition_index=number, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1]
        )
        for number in (0, 1)
    ]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(1, "127.0.0.1", 9092)],
        controller_id=1,
        topics=[MetadataResponseTopic(name="t", topic_id=TOPIC_ID, partitions=partitions)],
    )


def batches(asked: Asked) -> dict[int, bytes]:
    return {
        item.index: bytes(item.records) for topic in asked.request.topic_data for item in topic.partition_data
    }


def values(asked: Asked, partition: int = 0) -> list[str]:
    records: list[Record] = decode_records(batches(asked)[partition])
    return [record.value.decode() for record in records if record.value is not None]


def header(asked: Asked, partition: int = 0) -> BatchHeader:
    return parse_header(batches(asked)[partition])
