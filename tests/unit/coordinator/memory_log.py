"""A log in memory that can hold back its flush, refuse an append and lose what was not flushed."""

from __future__ import annotations

import klamm.testing.rebalances.coordinator
from klamm.coordinator.group.records import decode_record
from klamm.coordinator.runtime.log import AppendRefusedError, LogUnavailableError
from klamm.protocol.errors import ErrorCode
from klamm.records.batch import parse_header
from klamm.records.record import Record, decode_records, encode_batch


class MemoryLog(klamm.testing.rebalances.coordinator.MemoryLog):
    """A log that can hold back its flush, refuse an append and lose what was not flushed."""

    def __init__(self) -> None:
        super().__init__()
        self._durable_offset = 0
        self.is_holding = False
        self.flushes_asked = 0
        self.unawaited: list[int] = []  # offsets of batches that nothing waits for
        self.is_readable = True
        self.refuse_with: ErrorCode | None = None
        self.max_batch_bytes: int | None = None

    def _check(self) -> None:
        if not self.is_readable:
            raise LogUnavailableError("another leads")

    @property
    def start_offset(self) -> int:
        self._check()
        return super().start_offset

    @property
    def durable_offset(self) -> int:
        self._check()
        return self._durable_offset

    @durable_offset.setter
    def durable_offset(self, offset: int) -> None:
        self._durable_offset = offset

    def append(self, batch: bytes, *, now_ms: int, timestamp_ms: int, is_awaited: bool = True) -> int:
        if self.refuse_with is not None:
            raise AppendRefusedError(self.refuse_with)
        if self.max_batch_bytes is not None and len(batch) > self.max_batch_bytes:
            raise AppendRefusedError(ErrorCode.message_too_large)
        base_offset = super().append(batch, now_ms=now_ms, timestamp_ms=timestamp_ms)
        if not is_awaited:
            self.unawaited.append(base_offset)
        if not self.is_holding:
            self.durable_offset = self.end_offset
        return base_offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        self._check()
        return super().read(offset, max_bytes)

    def flush(self) -> None:
        self.flushes_asked += 1

    def cut_back(self) -> None:
        self._check()
        self.batches = [
            batch for batch in self.batches if parse_header(batch).next_offset <= self.durable_offset
        ]

    def records(self) -> list[Record]:
        return [
            record
            for batch in self.batches
            if not parse_header(batch).is_control
            for record in decode_records(batch)
        ]

    def decoded(self) -> list[object]:
        """What was written, transactions as if they were not."""
        return [decode_record(record.key, record.value) for record in self.records()]

    def _stable_offset(self) -> int:
        """Where the first open transaction begins."""
        open_since: dict[int, int] = {}
        for batch in self.batches:
            header = parse_header(batch)
            if header.is_control:
                open_since.pop(header.producer_id, None)
            elif header.is_transactional:
                open_since.setdefault(header.producer_id, header.base_offset)
        return min(open_since.values(), default=self.end_offset)

    def compacted(self) -> MemoryLog:
        """The latest plain record of every key; transactions, and all after an open one, are left."""
        stable_offset = self._stable_offset()
        last: dict[bytes | None, int] = {}
        for batch in self.batches:
            header = parse_header(batch)
            if not header.is_transactional and header.base_offset < stable_offset:
                last.update({record.key: record.offset for record in decode_records(batch)})
        copy = MemoryLog()
        for batch in self.batches:
            header = parse_header(batch)
            if header.is_transactional or header.base_offset >= stable_offset:
                copy.batches.append(batch)
                continue
            cleaned = encode_batch(
                [record for record in decode_records(batch) if last[record.key] == record.offset],
                base_offset=header.base_offset,
                last_offset_delta=header.last_offset_delta,
                max_timestamp_ms=header.max_timestamp_ms,
            )
            copy.batches.append(cleaned)
        copy.durable_offset = copy.end_offset
        return copy
