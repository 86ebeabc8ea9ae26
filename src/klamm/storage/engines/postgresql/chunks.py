"""Chunks: the batches of one partition in one round, as a row; and a cache of those that were read."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Final, NamedTuple

from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.records.batch import HEADER_BYTES, iter_headers, parse_header
from klamm.records.record import decode_records
from klamm.storage.engines.postgresql.tail import TailBatch
from klamm.storage.log import LogError, TimestampedOffset

CHUNK_BYTES: Final = 256 * 1024
CACHE_BYTES: Final = 64 * 1024 * 1024


class ChunkRow(NamedTuple):
    """A row to be inserted."""

    partition_id: int
    leader_epoch: int
    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    headers: bytes
    records: bytes


def chunks_of(
    partition_id: int, leader_epoch: int, batches: Sequence[TailBatch], limit_bytes: int = CHUNK_BYTES
) -> Sequence[ChunkRow]:
    """Consecutive batches as chunks of at most a size; a larger batch is a chunk of its own."""
    if len(batches) == 1:
        return (_chunk(partition_id, leader_epoch, batches),)
    chunks: list[ChunkRow] = []
    group: list[TailBatch] = []
    size_bytes = 0
    for batch in batches:
        if group and size_bytes + len(batch.data) > limit_bytes:
            chunks.append(_chunk(partition_id, leader_epoch, group))
            group, size_bytes = [], 0
        group.append(batch)
        size_bytes += len(batch.data)
    if group:
        chunks.append(_chunk(partition_id, leader_epoch, group))
    return chunks


def _chunk(partition_id: int, leader_epoch: int, group: Sequence[TailBatch]) -> ChunkRow:
    first, last = group[0], group[-1]
    max_timestamp_ms, data = first.max_timestamp_ms, first.data
    headers = data[:HEADER_BYTES]
    if len(group) > 1:
        for batch in group:
            max_timestamp_ms = max(max_timestamp_ms, batch.max_timestamp_ms)
        headers = b"".join([batch.data[:HEADER_BYTES] for batch in group])
        data = b"".join([batch.data for batch in group])
    return ChunkRow(
        partition_id, leader_epoch, first.base_offset, last.last_offset, max_timestamp_ms, headers, data
    )


def batches_of(records: bytes) -> list[TailBatch]:
    """The batches of a chunk."""
    return [
        TailBatch(
            header.base_offset,
            header.last_offset,
            header.max_timestamp_ms,
            records[position : position + header.size_bytes],
        )
        for position, header in iter_headers(records)
    ]


class CachedChunk(NamedTuple):
    """Batches that were read, and the offsets that they are everything of."""

    last_offset: int
    covers_from: int  # may be below the first batch, if compaction removed what was between
    batches: Sequence[TailBatch]
    size_bytes: int


class ChunkCache:
    """Chunks that were read last. Loads add to it on threads, the event loop reads it."""

    def __init__(self, limit_bytes: int = CACHE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        self._by_partition: dict[int, list[CachedChunk]] = {}  # by last offset
        self._order: OrderedDict[tuple[int, int], CachedChunk] = OrderedDict()  # least recently used first
        self._lock = Lock()

    def find(self, partition_id: int, offset: int) -> CachedChunk | None:
        """The chunk that covers an offset."""
        with self._lock:
            chunks = self._by_partition.get(partition_id, [])
            index = bisect_left(chunks, offset, key=_last_offset)
            if index == len(chunks) or chunks[index].covers_from > offset:
                return None
            self._order.move_to_end((partition_id, chunks[index].last_offset))
            return chunks[index]

    def add(self, partition_id: int, chunk: CachedChunk) -> None:
        with self._lock:
            self._remove(partition_id, chunk.last_offset)
            insort(self._by_partition.setdefault(partition_id, []), chunk, key=_last_offset)
            self._order[partition_id, chunk.last_offset] = chunk
            self._size_bytes += chunk.size_bytes
            # The newest stays whatever its size: somebody is about to read it.
            while self._size_bytes > self._limit_bytes and len(self._order) > 1:
                self._remove(*next(iter(self._order)))

    def forget(self, partition_id: int) -> None:
        with self._lock:
            for chunk in list(self._by_partition.get(partition_id, ())):
                self._remove(partition_id, chunk.last_offset)

    def _remove(self, partition_id: int, last_offset: int) -> None:
        chunk = self._order.pop((partition_id, last_offset), None)
        if chunk is None:
            return
        self._size_bytes -= chunk.size_bytes
        chunks = self._by_partition[partition_id]
        chunks.remove(chunk)
        if not chunks:
            del self._by_partition[partition_id]


def _last_offset(chunk: CachedChunk) -> int:
    return chunk.last_offset


def find_timestamp(
    batches: Sequence[TailBatch], timestamp_ms: int, start_offset: int, until_offset: int
) -> TimestampedOffset | None:
    """The first record of batches at or after a timestamp, in a range of offsets."""
    for batch in batches:
        if batch.max_timestamp_ms < timestamp_ms:
            continue
        for record_ms, offset, leader_epoch in _records(batch):
            if offset >= until_offset:
                return None
            if record_ms >= timestamp_ms and offset >= start_offset:
                return TimestampedOffset(offset, record_ms, leader_epoch)
    return None


def max_timestamp_ms(batches: Sequence[TailBatch], start_offset: int) -> int:
    """The largest timestamp of a record from an offset on; -1 without any."""
    best_ms = -1
    for batch in batches:
        if batch.last_offset < start_offset or batch.max_timestamp_ms <= best_ms:
            continue
        if batch.base_offset >= start_offset:
            best_ms = batch.max_timestamp_ms
        else:
            times = [record_ms for record_ms, offset, _ in _records(batch) if offset >= start_offset]
            best_ms = max(best_ms, *times)
    return best_ms


def _records(batch: TailBatch) -> list[tuple[int, int, int]]:
    """(timestamp, offset, leader epoch) of each record. Raises LogError."""
    try:
        _, header = next(iter_headers(batch.data))
        return [
            (record.timestamp_ms, record.offset, header.leader_epoch) for record in decode_records(batch.data)
        ]
    except DecodeError as error:
        raise LogError(
            ErrorCode.corrupt_message, f"invalid batch at offset {batch.base_offset}: {error}"
        ) from error


class MemorySlice:
    """Whole batches in memory, as a LogSlice: they stay what they are, whatever becomes of the log."""

    __slots__ = ("_length", "_parts")

    def __init__(self, parts: Sequence[bytes]) -> None:
        self._parts = parts
        self._length = sum(map(len, parts))

    def __len__(self) -> int:
        return self._length

    def read(self, position: int, length: int) -> bytes:
        found: list[bytes] = []
        for part in self._parts:
            if position < len(part):
                found.append(part[position : position + length])
                length -= len(found[-1])
                if length <= 0:
                    break
            position = max(0, position - len(part))
        return b"".join(found)

    def place(self) -> tuple[int, int] | None:
        return None

    def end_offset(self) -> int:
        return parse_header(self._parts[-1]).next_offset

    def close(self) -> None:
        """Nothing to release: the memory goes with the slice."""
