"""Records on their way to one partition, sent and settled together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from klamm.client.producer.delivery import Delivery, RecordMetadata, Settlement
from klamm.protocol.types import TopicPartition
from klamm.records.record import Record, encode_batch

BATCH_OVERHEAD_BYTES: Final = 61
RECORD_OVERHEAD_BYTES: Final = 21  # length, attributes, deltas and the four lengths, at their longest


def estimated_size(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
) -> int:
    """At least as many bytes as the record will take, uncompressed."""
    size = RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in headers:
        size += 10 + 4 * len(name) + (len(content) if content else 0)
    return size


class Batch:
    """One batch: open while it takes records, closed once it is sent, settled at the end."""

    __slots__ = (
        "_settlement",
        "attempts",
        "base_offset",
        "base_sequence",
        "created_at_ms",
        "deliveries",
        "error",
        "first_index",
        "is_closed",
        "log_append_time_ms",
        "partition",
        "parts",
        "producer_epoch",
        "producer_id",
        "record_errors",
        "records",
        "retry_at_ms",
        "size_bytes",
        "was_sent",
        "whole",
    )

    def __init__(self, partition: TopicPartition, created_at_ms: int) -> None:
        self.partition = partition
        self.created_at_ms = created_at_ms
        self.records: list[Record] = []
        self.deliveries: list[Delivery] = []
        self.size_bytes = BATCH_OVERHEAD_BYTES
        self.is_closed = False
        self.attempts = 0
        self.retry_at_ms = 0
        self.was_sent = False
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = -1
        self.error: Exception | None = None
        self.record_errors: dict[int, Exception] = {}
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.whole: Batch | None = None  # what this is a part of, once the broker found it too large
        self.first_index = 0
        self.parts: list[Batch] = []
        self._settlement = Settlement()

    def append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[tuple[str, bytes | None], ...],
        size_bytes: int,
    ) -> Delivery:
        index = len(self.records)
        self.records.append(Record(index, timestamp_ms, key, value, headers))
        self.size_bytes += size_bytes
        delivery = Delivery(self, index)
        self.deliveries.append(delivery)
        return delivery

    def encoded(self, codec: int, level: int | None) -> bytes:
        """The batch as the broker wants it."""
        return encode_batch(
            self.records,
            codec=codec,
            level=level,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
        )

    def split(self, largest_bytes: int) -> list[Batch]:
        """The same records in smaller batches. The futures stay here: this batch ends when all parts have."""
        parts: list[Batch] = []
        for record in self.records:
            size_bytes = estimated_size(record.key, record.value, record.headers)
            if not parts or parts[-1].size_bytes + size_bytes > largest_bytes:
                parts.append(Batch(self.partition, self.created_at_ms))
                parts[-1].whole = self
                parts[-1].first_index = record.offset
            part = parts[-1]
            part.records.append(record._replace(offset=len(part.records)))
            part.size_bytes += size_bytes
        sequence = self.base_sequence
        for part in parts:
            part.is_closed = part.was_sent = True
            part.attempts = self.attempts
            part.producer_id, part.producer_epoch = self.producer_id, self.producer_epoch
            part.base_sequence = sequence
            if sequence >= 0:
                sequence = next_sequence(sequence, len(part.records))
        self.parts = parts
        return parts

    def _ended(self) -> list[Callable[[], None]]:
        callbacks = self._settlement.settle()
        whole = self.whole
        if whole is not None and all(part.is_settled for part in whole.parts):
            callbacks += whole._ended()
        return callbacks

    @property
    def is_settled(self) -> bool:
        return self._settlement.is_settled

    def wait(self, timeout: float | None) -> bool:
        return self._settlement.wait(timeout)

    def when_settled(self, index: int, callback: Callable[[], None]) -> None:
        self._settlement.when_settled(index, callback)

    def succeed(self, base_offset: int, log_append_time_ms: int) -> list[Callable[[], None]]:
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        return self._ended()

    def fail(
        self, error: Exception, record_errors: dict[int, Exception] | None = None
    ) -> list[Callable[[], None]]:
        self.error = error
        self.record_errors = record_errors or {}
        return self._ended()

    def _part_with(self, index: int) -> tuple[Batch, int]:
        """The part that carried a record, and its place there."""
        part = next(item for item in reversed(self.parts) if item.first_index <= index)
        return part, index - part.first_index

    def error_of(self, index: int) -> Exception | None:
        if self.parts:
            part, within = self._part_with(index)
            return part.error_of(within)
        return self.record_errors.get(index, self.error)

    def metadata_of(self, index: int) -> RecordMetadata:
        if self.parts:
            part, within = self._part_with(index)
            return part.metadata_of(within)
        offset = -1 if self.base_offset < 0 else self.base_offset + index
        timestamp_ms = self.log_append_time_ms
        if timestamp_ms < 0:
            timestamp_ms = self.records[index].timestamp_ms
        return RecordMetadata(self.partition.topic, self.partition.partition, offset, timestamp_ms)


def next_sequence(sequence: int, count: int) -> int:
    """Sequences go from 0 to 2147483647 and begin again."""
    return (sequence + count) & 0x7FFFFFFF
