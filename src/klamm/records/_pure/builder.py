"""A batch that grows record by record."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from klamm.protocol.types import Buffer
from klamm.records._pure.region import encode_record
from klamm.records.layout import MAX_INT64, MIN_INT64


class BatchBuilder:
    """Builds one batch. Records are encoded when added; offsets begin at 0, times are relative."""

    __slots__ = (
        "_data",
        "_is_released",
        "_limit_bytes",
        "_times_ms",
        "base_timestamp_ms",
        "max_timestamp_ms",
    )

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._data = bytearray()
        self._times_ms = array("q")
        self._is_released = False
        self.base_timestamp_ms = -1
        self.max_timestamp_ms = -1

    @property
    def record_count(self) -> int:
        return len(self._times_ms)

    @property
    def size_bytes(self) -> int:
        """What the records take, uncompressed."""
        return len(self._data)

    def append(
        self,
        timestamp_ms: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Iterable[tuple[str, Buffer | None]] = (),
    ) -> int:
        """Add a record; returns its index, or -1 if the batch is full. The first record always fits."""
        index = len(self._times_ms)
        if self._is_released:
            return -1
        if not MIN_INT64 <= timestamp_ms <= MAX_INT64:
            raise ValueError(f"timestamp {timestamp_ms} has more than 64 bits")
        if not index:
            self.base_timestamp_ms = self.max_timestamp_ms = timestamp_ms
        named = [(name.encode(), header_value) for name, header_value in headers]
        record = encode_record(timestamp_ms - self.base_timestamp_ms, index, key, value, named)
        if index and len(self._data) + len(record) > self._limit_bytes:
            return -1
        self._data += record
        self._times_ms.append(timestamp_ms)
        self.max_timestamp_ms = max(self.max_timestamp_ms, timestamp_ms)
        return index

    def region(self) -> bytearray:
        """The records so far, one after the other."""
        return self._data[:]

    def timestamp_of(self, index: int) -> int:
        """When a record was dated; also after `release`."""
        if not 0 <= index < len(self._times_ms):
            raise IndexError(f"record {index} of {len(self._times_ms)}")
        return self._times_ms[index]

    def release(self) -> None:
        """Let the bytes go; nothing can be added any more."""
        self._is_released = True
        self._data = bytearray()
