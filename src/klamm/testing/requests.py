"""Requests to write and read records, with everything that does not matter filled in: for `WireClient`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from klamm.clock import Clock
from klamm.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.protocol.types import ZERO_ID, Buffer
from klamm.records.record import Record, encode_batch


class Timed(Protocol):
    """A broker whose clock dates the records."""

    @property
    def clock(self) -> Clock: ...


def a_batch(
    broker: Timed,
    *,
    key: bytes | None = b"key",
    value: bytes | None = b"value",
    timestamps_ms: Sequence[int] | None = None,
    count: int = 1,
    **options: Any,
) -> bytes:
    """A batch of some equal records, dated now."""
    times = timestamps_ms if timestamps_ms is not None else [broker.clock.timestamp_ms()] * count
    records = [Record(index, time, key, value) for index, time in enumerate(times)]
    if "producer_id" in options:
        options = {"producer_epoch": 0, "base_sequence": 0, **options}
    return encode_batch(records, **options)


def a_produce(
    broker: Timed,
    batch: Buffer | None = None,
    *,
    topic: str = "t",
    topic_id: bytes = ZERO_ID,
    partition: int = 0,
    acks: int = -1,
    timeout_ms: int = 30_000,
    batches: Mapping[tuple[str, int], Buffer | None] | None = None,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """Produce one batch to one partition, or what `batches` says to several."""
    if batches is None:
        batches = {(topic, partition): a_batch(broker) if batch is None else batch}
    topics = [
        TopicProduceData(topic_id, name, [PartitionProduceData(index, records)])
        for (name, index), records in batches.items()
    ]
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def a_fetch(
    broker: Timed,
    *,
    topic: str = "t",
    topic_id: bytes = ZERO_ID,
    offset: int = 0,
    partition: int = 0,
    offsets: Mapping[int, int] | None = None,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50 * 1024 * 1024,
    partition_max_bytes: int = 1024 * 1024,
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    **options: Any,
) -> FetchRequest:
    """Fetch one partition, or those of one topic that `offsets` names."""
    partitions = [
        FetchPartition(
            index,
            leader_epoch,
            start,
            last_fetched_epoch,
            partition_max_bytes=partition_max_bytes,
        )
        for index, start in (offsets if offsets is not None else {partition: offset}).items()
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic_id, topic, partitions)] if partitions else [],
        **options,
    )
