"""The reading part of a partition's log in PostgreSQL: its offsets, reads and lookups.

The end of the log is in memory, so that a consumer that keeps up never reaches the database. What is older is
loaded off the event loop (MustLoadError) into a cache that all logs of the store share.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, Protocol

import psycopg
from psycopg import Connection

from klamm.protocol.errors import ErrorCode
from klamm.storage.engines.postgresql.chunks import (
    ChunkCache,
    MemorySlice,
    find_timestamp,
    max_timestamp_ms,
)
from klamm.storage.engines.postgresql.connection import (
    ConnectionLostError,
    Session,
    StoreUnavailableError,
    one_line,
)
from klamm.storage.engines.postgresql.loading import (
    LoadedLog,
    look_up_max_timestamp,
    look_up_timestamp,
    read_chunks,
)
from klamm.storage.engines.postgresql.tail import Tail, TailBatch, UnflushedBytes
from klamm.storage.log import (
    AbortedTransaction,
    EpochEnd,
    LogError,
    MustLoadError,
    TimestampedOffset,
)
from klamm.storage.producer_gate import ProducerGate

_MAX_FOUND: Final = 100  # results of lookups that were not asked for again
_NOT_FOUND: Final = object()


class LogReader(Protocol):
    """What a log needs from its store to read."""

    cache: ChunkCache
    backlog: UnflushedBytes

    def reading_session(self, partition_id: int) -> Session: ...


class ReadablePostgresLog(ProducerGate):
    """A log's offsets and the ways to read it; what changes it is in `PostgresLog`."""

    def __init__(self, name: str, loaded: LoadedLog, reader: LogReader) -> None:
        self.name = name
        self.partition_id = loaded.partition_id
        self._reader = reader
        self._found: dict[Hashable, Any] = {}  # results of loads, until they are asked for again
        super().__init__(loaded.producers, start_offset=loaded.start_offset, end_offset=loaded.end_offset)
        self._take(loaded)

    def _take(self, loaded: LoadedLog) -> None:
        """Begin with what the store has."""
        self._hold(loaded.producers, loaded.start_offset, loaded.end_offset)
        self._size_bytes = loaded.size_bytes
        self._tail = Tail(loaded.end_offset, self._reader.backlog)
        self._epochs = loaded.epochs
        self._aborted = loaded.aborted
        self._snapshot_end = loaded.snapshot_end

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    @property
    def segment_count(self) -> int:
        return 1

    @property
    def is_dirty(self) -> bool:
        return self.high_watermark < self.log_end_offset

    @property
    def is_being_repaired(self) -> bool:
        return False

    @property
    def is_written(self) -> bool:
        return not self.is_dirty

    # -- reading

    def read(self, offset: int, *, until_offset: int, max_bytes: int, at_least_one: bool) -> bytes:
        parts = self._parts(offset, until_offset, max_bytes, at_least_one)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def slice(
        self, offset: int, *, until_offset: int, max_bytes: int, at_least_one: bool, small_bytes: int = 0
    ) -> MemorySlice | bytes:
        parts = self._parts(offset, until_offset, max_bytes, at_least_one)
        if sum(map(len, parts)) <= small_bytes:
            return b"".join(parts)
        return MemorySlice(parts)

    def _parts(self, offset: int, until_offset: int, max_bytes: int, at_least_one: bool) -> list[bytes]:
        if offset < self._log_start or offset > self.log_end_offset:
            raise LogError(
                ErrorCode.offset_out_of_range,
                f"offset {offset} is outside {self._log_start} to {self.log_end_offset}",
            )
        if offset >= until_offset:
            return []
        tail = self._tail
        if offset >= tail.start_offset:
            return tail.read(offset, until_offset, max_bytes, at_least_one=at_least_one)
        parts: list[bytes] = []
        while offset < tail.start_offset and offset < until_offset:
            chunk = self._reader.cache.find(self.partition_id, offset)
            if chunk is None:
                if parts:
                    return parts
                self._load_chunks(offset, max_bytes)
            assert chunk is not None
            for batch in chunk.batches:
                if batch.last_offset < offset:
                    continue
                if batch.last_offset >= until_offset:
                    return parts
                max_bytes -= len(batch.data)
                if max_bytes < 0 and (parts or not at_least_one):
                    return parts
                parts.append(batch.data)
            offset = chunk.last_offset + 1
        is_first = at_least_one and not parts
        return parts + tail.read(offset, until_offset, max_bytes, at_least_one=is_first)

    def _load_chunks(self, offset: int, max_bytes: int) -> None:
        """Raises MustLoadError; or LogError, if that was done and failed."""
        tail_start = self._tail.start_offset
        self._asked_for(
            ("read", offset),
            lambda connection: read_chunks(
                connection, self._reader.cache, self.partition_id, offset, tail_start, max_bytes
            ),
        )
        # Loaded, but evicted before it was read: by others that read much at the same time.
        self._load_chunks(offset, max_bytes)

    def _asked_for(self, key: Hashable, look_up: Callable[[Connection[Any]], Any]) -> Any:
        """The result of a lookup in the database. Raises MustLoadError if it has not been made yet."""
        found = self._found.pop(key, _NOT_FOUND)
        if isinstance(found, LogError):
            raise found
        if found is not _NOT_FOUND:
            return found
        # Workers only insert, and only this thread removes: neither meets a change of the other.
        for unasked in list(self._found)[:-_MAX_FOUND]:
            del self._found[unasked]

        def load() -> None:
            self._found[key] = self._run(look_up)

        raise MustLoadError(load)

    def _run(self, look_up: Callable[[Connection[Any]], Any]) -> Any:
        """The result of a lookup; LogError if it failed. Blocks."""
        session = self._reader.reading_session(self.partition_id)
        try:
            try:
                with session.use() as connection:
                    return look_up(connection)
            except ConnectionLostError:
                with session.use() as connection:  # it only reads
                    return look_up(connection)
        except LogError as error:
            return error
        except (ConnectionLostError, StoreUnavailableError, psycopg.Error) as error:
            return LogError(ErrorCode.kafka_storage_error, f"reading {self.name}: {one_line(error)}")

    def readable_bytes(self, offset: int, until_offset: int, limit_bytes: int) -> int:
        if not self._log_start <= offset < min(until_offset, self.log_end_offset):
            return 0
        if offset < self._tail.start_offset:
            return limit_bytes
        parts = self._tail.read(offset, until_offset, sys.maxsize, at_least_one=True)
        return min(sum(map(len, parts)), limit_bytes)

    def in_active_segment(self, offset: int) -> bool:
        return offset >= self._tail.start_offset

    def aborted_transactions(self, from_offset: int, until_offset: int) -> Sequence[AbortedTransaction]:
        return [
            AbortedTransaction(entry.producer_id, entry.first_offset)
            for entry in self._aborted
            if entry.last_offset >= from_offset and entry.first_offset < until_offset
        ]

    # -- lookups

    def offset_for_timestamp(self, timestamp_ms: int, until_offset: int) -> TimestampedOffset:
        tail, start = self._tail, self._log_start
        if start < tail.start_offset:
            until = min(until_offset, tail.start_offset)
            found: TimestampedOffset = self._asked_for(
                ("time", timestamp_ms, until),
                lambda connection: look_up_timestamp(
                    connection, self.partition_id, timestamp_ms, start, until
                ),
            )
            if found.offset >= 0:
                return found
        return find_timestamp(tail.batches, timestamp_ms, start, until_offset) or TimestampedOffset()

    def offset_for_max_timestamp(self) -> TimestampedOffset:
        tail, start = self._tail, self._log_start
        older = TimestampedOffset()
        if start < tail.start_offset:
            until = tail.start_offset
            older = self._asked_for(
                ("newest", until),
                lambda connection: look_up_max_timestamp(connection, self.partition_id, start, until),
            )
        best_ms = max_timestamp_ms(tail.batches, start)
        if older.offset >= 0 and best_ms <= older.timestamp_ms:
            return older
        return find_timestamp(tail.batches, best_ms, start, sys.maxsize) or older

    def earliest(self) -> TimestampedOffset:
        return TimestampedOffset(self._log_start, -1, self._epochs.at(self._log_start))

    def end_of_epoch(self, leader_epoch: int) -> EpochEnd:
        return self._epochs.end_of(leader_epoch, self.log_end_offset)

    @property
    def tail_batches(self) -> Sequence[TailBatch]:
        """What is in memory, oldest first."""
        return self._tail.batches
