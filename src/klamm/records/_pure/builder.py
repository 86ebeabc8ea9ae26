"""A batch that grows record by record."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any, Generic, Protocol, TypeVar

from klamm.protocol.types import Buffer
from klamm.records._pure.region import encode_record
from klamm.records.layout import MAX_INT64, MIN_INT64


class HasBuilder(Protocol):
    """A batch, as far as it matters here."""

    @property
    def builder(self) -> BatchBuilder: ...


class BatchBuilder:
    """Builds one batch. Records are encoded when added; offsets begin at 0, times are relative."""

    __slots__ = (
        "_data",
        "_limit_bytes",
        "_times_ms",
        "base_timestamp_ms",
        "is_closed",
        "max_timestamp_ms",
    )

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._data = bytearray()
        self._times_ms = array("q")
        self.is_closed = False
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
        """Add a record; returns its index, or -1 if the batch is full or closed. The first always fits."""
        index = len(self._times_ms)
        if self.is_closed:
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

    def close(self) -> None:
        """Accept no more records."""
        self.is_closed = True

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
        self.is_closed = True
        self._data = bytearray()


class Place:
    """Where a record is: its batch, and its index there. A producer's futures are such places."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Any, index: int) -> None:
        self._batch = batch
        self._index = index


AnyBatch = TypeVar("AnyBatch", bound=HasBuilder)
AnyPlace = TypeVar("AnyPlace", bound=Place)


class OpenBatches(Generic[AnyBatch, AnyPlace]):
    """The batches that take records, each under a name; a record that was added is answered with its place.

    `append` needs a lock here; of the compiled core it does not.
    """

    __slots__ = ("_batches", "_kind")

    def __init__(self, kind: type[AnyPlace]) -> None:
        if not issubclass(kind, Place):
            raise TypeError(f"{kind} is not a kind of Place")
        self._batches: dict[Any, AnyBatch] = {}
        self._kind = kind

    def __setitem__(self, name: Any, batch: AnyBatch) -> None:
        self._batches[name] = batch

    def get(self, name: Any) -> AnyBatch | None:
        """The batch of this name, or None."""
        return self._batches.get(name)

    def pop(self, name: Any) -> AnyBatch | None:
        """Remove the batch of this name; it, or None."""
        return self._batches.pop(name, None)

    def append(
        self, name: Any, timestamp_ms: int, key: Buffer | None, value: Buffer | None
    ) -> AnyPlace | None:
        """Add a record without headers to the batch of this name; its place, or None if there is no room."""
        batch = self._batches.get(name)
        if batch is None:
            return None
        index = batch.builder.append(timestamp_ms, key, value)
        return None if index < 0 else self._kind(batch, index)
