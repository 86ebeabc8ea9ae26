"""Records on their way to one partition, sent and settled together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from klamm.client.producer.delivery import RecordMetadata, Settlement
from klamm.protocol.types import TopicPartition
from klamm.records.core import BatchBuilder, decode_region
from klamm.records.layout import TRANSACTIONAL_BIT
from klamm.records.record import Record, encode_region_into_batch

if TYPE_CHECKING:
    import threading
    from asyncio import AbstractEventLoop

Headers = tuple[tuple[str, bytes | None], ...]
Content = tuple[int, bytes | None, bytes | None, Headers]  # timestamp_ms, key, value, headers of a record

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
    """One batch: open while records are added, closed once it is sent, settled at the end.

    Records are encoded when added. A future is a batch and an index; the batch
    records which futures were read.
    """

    __slots__ = (
        "_settlement",
        "attempts",
        "base_offset",
        "base_sequence",
        "builder",
        "created_at_ms",
        "error",
        "examined",
        "first_index",
        "is_closed",
        "is_placed",
        "is_transactional",
        "last_error",
        "log_append_time_ms",
        "partition",
        "parts",
        "producer_epoch",
        "producer_id",
        "record_errors",
        "reserved_bytes",
        "retry_at_ms",
        "was_sent",
        "whole",
    )

    def __init__(self, partition: TopicPartition, created_at_ms: int, limit_bytes: int) -> None:
        self.partition = partition
        self.created_at_ms = created_at_ms
        self.builder = BatchBuilder(limit_bytes - BATCH_OVERHEAD_BYTES)
        self.reserved_bytes = 0  # what it holds of `buffer.memory`
        self.is_closed = False
        self.is_placed = False  # a parked record: another batch has it now
        self.is_transactional = False
        self.attempts = 0
        self.retry_at_ms = 0
        self.was_sent = False
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = -1
        self.examined: set[int] = set()
        self.error: Exception | None = None
        self.last_error: Exception | None = None  # why it had to be sent again
        self.record_errors: dict[int, Exception] = {}
        self.base_offset = -1
        self.log_append_time_ms = -1
        self.whole: Batch | None = None  # what this is a part of, once the broker found it too large
        self.first_index = 0
        self.parts: list[Batch] = []
        self._settlement = Settlement()

    def close(self) -> None:
        """Accept no more records."""
        self.is_closed = True
        self.builder.close()

    def wait_with(self, new_event: Callable[[], threading.Event]) -> None:
        """Wait with such events: those of the client's clock."""
        self._settlement.new_event = new_event

    @property
    def record_count(self) -> int:
        return self.builder.record_count

    @property
    def size_bytes(self) -> int:
        return BATCH_OVERHEAD_BYTES + self.builder.size_bytes

    def encoded(self, codec: int, level: int | None) -> bytes:
        """The encoded batch."""
        builder = self.builder
        return encode_region_into_batch(
            builder.region(),
            builder.record_count,
            codec=codec,
            level=level,
            base_offset=0,
            last_offset_delta=builder.record_count - 1,
            leader_epoch=-1,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            attributes=TRANSACTIONAL_BIT if self.is_transactional else 0,
            base_timestamp_ms=builder.base_timestamp_ms,
            max_timestamp_ms=builder.max_timestamp_ms,
        )

    def split(self, largest_bytes: int) -> list[Batch]:
        """The same records in smaller batches. The futures stay here: this batch ends when all parts have."""
        parts: list[Batch] = []
        for record in self._records():
            if not parts or _add(parts[-1], record) < 0:
                parts.append(Batch(self.partition, self.created_at_ms, largest_bytes))
                parts[-1].first_index = record.offset
                _add(parts[-1], record)
        return self._continued_by(parts)

    def _records(self) -> list[Record]:
        builder = self.builder
        return decode_region(builder.region(), builder.record_count, 0, builder.base_timestamp_ms)

    def _continued_by(self, parts: list[Batch]) -> list[Batch]:
        """Parts take over identity, numbers and attempts."""
        sequence = self.base_sequence
        for part in parts:
            part.whole = self
            part.close()
            part.was_sent = True
            part.attempts = self.attempts
            part.is_transactional = self.is_transactional
            part.producer_id, part.producer_epoch = self.producer_id, self.producer_epoch
            part.base_sequence = sequence
            if sequence >= 0:
                sequence = next_sequence(sequence, part.record_count)
        self.parts = parts
        return parts

    def _ended(self) -> list[Callable[[], object]]:
        self.builder.release()  # a program may keep its futures; it need not keep the bytes
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

    def wait_reported(self, timeout: float | None) -> bool:
        """Wait until the batch is settled and its callbacks have run."""
        return self._settlement.wait_reported(timeout)

    def reported(self) -> None:
        """The callbacks have run."""
        self._settlement.reported()
        whole = self.whole
        if whole is not None and all(part._settlement.is_reported for part in whole.parts):
            whole.reported()

    def when_settled(self, index: int, callback: Callable[[], object]) -> None:
        self._settlement.when_settled(index, callback)

    def call_when_settled(self, loop: AbstractEventLoop, callback: Callable[[], object]) -> bool:
        return self._settlement.call_when_settled(loop, callback)

    def succeed(self, base_offset: int, log_append_time_ms: int) -> list[Callable[[], object]]:
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        return self._ended()

    def fail(
        self, error: Exception, record_errors: dict[int, Exception] | None = None
    ) -> list[Callable[[], object]]:
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

    def unseen_failures(self) -> list[Exception]:
        """The errors of records whose future was not read."""
        if not self.is_settled:
            return []
        if self.parts:
            return [error for part in self.parts for error in part.unseen_failures()]
        errors = (
            (self.error_of(index) for index in range(self.record_count) if not self._is_examined(index))
            if self.error is not None
            else ()
        )
        return [error for error in errors if error is not None]

    def mark_examined(self) -> None:
        """All records' failures have been reported."""
        if self.error is not None or self.parts:
            self.examined.update(range(self.record_count))

    def _is_examined(self, index: int) -> bool:
        if self.whole is not None:
            return self.whole._is_examined(self.first_index + index)
        return index in self.examined

    def metadata_of(self, index: int) -> RecordMetadata:
        if self.parts:
            part, within = self._part_with(index)
            return part.metadata_of(within)
        offset = -1 if self.base_offset < 0 else self.base_offset + index
        timestamp_ms = self.log_append_time_ms
        if timestamp_ms < 0:
            timestamp_ms = self.builder.timestamp_of(index)
        return RecordMetadata(self.partition.topic, self.partition.partition, offset, timestamp_ms)


def _add(batch: Batch, record: Record) -> int:
    return batch.builder.append(record.timestamp_ms, record.key, record.value, record.headers)


def next_sequence(sequence: int, count: int) -> int:
    """Sequences go from 0 to 2147483647 and begin again."""
    return (sequence + count) & 0x7FFFFFFF
