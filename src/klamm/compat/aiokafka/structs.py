"""aiokafka's structures."""

from __future__ import annotations

from typing import NamedTuple

from klamm.client.consumer.records import ConsumerRecord
from klamm.compat.callers import OffsetAndTimestamp
from klamm.errors import KlammError
from klamm.protocol.types import TopicPartition

__all__ = [
    "BrokerMetadata",
    "ConsumerRecord",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionMetadata",
    "RecordMetadata",
    "TopicPartition",
]


class OffsetAndMetadata(NamedTuple):
    """An offset to commit."""

    offset: int
    metadata: str


class BrokerMetadata(NamedTuple):
    """One broker."""

    nodeId: int | str  # noqa: N815  # its name there
    host: str
    port: int
    rack: str | None


class PartitionMetadata(NamedTuple):
    """One partition."""

    topic: str
    partition: int
    leader: int
    replicas: list[int]
    isr: list[int]
    error: KlammError | None


class RecordMetadata(NamedTuple):
    """Where a record went."""

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int | None
    timestamp_type: int  # 0: the producer's clock, 1: the broker's
    log_start_offset: int | None  # None: klamm's client does not keep it
