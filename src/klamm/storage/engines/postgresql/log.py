"""The writing part of a partition's log in PostgreSQL: appends, flushes, truncation and retention."""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from struct import Struct
from typing import Any, Final, NamedTuple, Protocol, cast

from psycopg import Connection

from klamm.protocol.errors import ErrorCode
from klamm.records.batch import LENGTH_AT, LENGTH_OVERHEAD_BYTES, LOG_APPEND_TIME_BIT, BatchHeader
from klamm.records.core import stamped
from klamm.records.markers import EndMarker
from klamm.storage.cleaning_batches import CleaningRules, live_producers
from klamm.storage.durability import HeldBack, SyncTicket
from klamm.storage.engines.postgresql.chunks import CHUNK_BYTES
from klamm.storage.engines.postgresql.compaction import MIN_DIRTY_BYTES, CompactionJob
from klamm.storage.engines.postgresql.loading import LoadedLog
from klamm.storage.engines.postgresql.reading import LogReader, ReadablePostgresLog
from klamm.storage.engines.postgresql.retention import ExpiredChunks, delete_expired, truncate_log
from klamm.storage.engines.postgresql.rounds import PostgresRounds, PostgresTicket
from klamm.storage.engines.postgresql.tail import TailBatch
from klamm.storage.engines.segments.txn_index import AbortedEntry
from klamm.storage.log import (
    AppendOrigin,
    AppendResult,
    LogError,
)
from klamm.storage.producer_gate import refuse_too_large, sized_header
from klamm.storage.producer_snapshot import decode_snapshot, encode_snapshot
from klamm.storage.producer_state import BatchSummary, ProducerState
from klamm.storage.topic_config import TopicConfig

SNAPSHOT_CHUNKS: Final = 1_000  # appended since the last snapshot of the producers

_logger = logging.getLogger(__name__)
_OWN: Final = Struct(">i11xi8xq")  # length, last offset delta, largest timestamp: of a batch of our own


class DatabaseLogKeeper(LogReader, Protocol):
    """What a log needs from the store it belongs to."""

    def tail_limit_bytes(self) -> int:
        """How much of a log may stay in memory after it is durable."""
        ...

    def log_closed(self, log: PostgresLog) -> None: ...
    def save_log_start(self, log: PostgresLog, start_offset: int) -> None:
        """Blocks. Raises LogError."""
        ...

    def save_snapshots(self, snapshots: Sequence[Snapshot]) -> None:
        """Blocks. Raises LogError."""
        ...


class Snapshot(NamedTuple):
    """The producers of a log at an offset, and the aborted transactions that are not saved yet."""

    log: PostgresLog
    end_offset: int
    state: bytes
    aborted: Sequence[AbortedEntry]


class _Update(NamedTuple):
    """A batch of a producer that is not durable yet."""

    header: BatchHeader
    base_offset: int
    marker: EndMarker | None


class PostgresLog(ReadablePostgresLog):
    """A PartitionLog whose batches are rows."""

    def __init__(
        self,
        loaded: LoadedLog,
        *,
        topic: str,
        topic_id: bytes,
        partition: int,
        leader_epoch: int,
        config: TopicConfig,
        rounds: PostgresRounds,
        keeper: DatabaseLogKeeper,
    ) -> None:
        self._keeper = keeper
        self._rounds = rounds
        self.held_back: HeldBack | None = None
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.config = config
        self.leader_epoch = leader_epoch
        self._generation = 0
        self._refusal: LogError | None = None  # why appends are rejected from now on
        super().__init__(f"{topic}-{partition}", loaded, keeper)

    def _take(self, loaded: LoadedLog) -> None:
        super()._take(loaded)
        self._updates: deque[_Update] = deque()
        # As of the last durable offset: what a failed flush goes back to, and what snapshots contain.
        self._durable_producers = _copy(loaded.producers)
        self._chunks_since_snapshot = loaded.chunk_count
        self._saved_start = loaded.start_offset
        self._clean_bytes = 0  # of the size: after the last pass
        self._refresh_stable()

    # -- appending

    def append(
        self,
        batch: bytes | bytearray | memoryview,
        now_ms: int,
        timestamp_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        marker_bumps_epoch: bool = False,
        guard: int | None = None,
        header: BatchHeader | None = None,
        write_later: bool = False,
        must_continue: bool = False,
    ) -> AppendResult:
        header = sized_header(batch, header)
        size_bytes = len(batch)
        if self._refusal is not None:
            raise self._refusal
        refuse_too_large(size_bytes, self.config.segment_bytes)
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        max_timestamp_ms = header.max_timestamp_ms
        marker: EndMarker | None = None
        if header.producer_id >= 0:
            found = self._admit(batch, header, origin, marker_bumps_epoch, guard, must_continue)
            if type(found) is BatchSummary:
                return AppendResult(found.first_offset, found.last_offset, found.timestamp_ms, True)
            marker = cast("EndMarker | None", found)
        try:
            self._keeper.backlog.check(self.name)
        except LogError:
            self._producers.refused(header)
            raise
        data = stamped(batch, base_offset, self.leader_epoch)
        self._tail.add(TailBatch(base_offset, last_offset, max_timestamp_ms, data))
        self._size_bytes += size_bytes
        self.log_end_offset = last_offset + 1
        if header.producer_id >= 0:
            completed = self._appended(header, base_offset, marker)
            if completed is not None and completed.is_aborted:
                self._aborted.append(AbortedEntry.of(completed))
            self._updates.append(_Update(header, base_offset, marker))
        append_time_ms = max_timestamp_ms if header.attributes & LOG_APPEND_TIME_BIT else -1
        return AppendResult(base_offset, last_offset, append_time_ms)

    def append_own(self, batch: bytes, now_ms: int) -> int:
        base_offset = self.log_end_offset
        batch_length, delta, max_timestamp_ms = _OWN.unpack_from(batch, LENGTH_AT)
        size_bytes = len(batch)
        if (
            self._refusal is not None
            or size_bytes > self.config.segment_bytes
            or batch_length + LENGTH_OVERHEAD_BYTES != size_bytes
        ):
            return self.append(batch, now_ms, -1).base_offset  # says why not
        self._keeper.backlog.check(self.name)
        last_offset = base_offset + delta
        data = stamped(batch, base_offset, self.leader_epoch)
        self._tail.add(TailBatch(base_offset, last_offset, max_timestamp_ms, data))
        self._size_bytes += size_bytes
        self.log_end_offset = last_offset + 1
        return base_offset

    # -- flushing

    def sync_is_due(self, now_ms: int) -> bool:
        return self.high_watermark < self.log_end_offset

    def start_sync(self) -> SyncTicket | None:
        if self.high_watermark >= self.log_end_offset or self._refusal is not None:
            return None
        return PostgresTicket(
            self._rounds,
            self.name,
            self.partition_id,
            self.leader_epoch,
            self._tail.pending(),
            min(CHUNK_BYTES, self.config.segment_bytes),
            self._generation,
        )

    def start_segment_sync(self) -> SyncTicket | None:
        return None

    def finish_sync(self, ticket: SyncTicket) -> None:
        assert isinstance(ticket, PostgresTicket)
        if ticket.generation == self._generation:
            self._chunks_since_snapshot += ticket.chunk_count
            self._made_durable(ticket.end_offset)

    def fail_sync(self, ticket: SyncTicket) -> None:
        assert isinstance(ticket, PostgresTicket)
        if ticket.generation != self._generation:
            return
        self._made_durable(ticket.durable_end)
        self._cut_tail(self.high_watermark)

    def _made_durable(self, end_offset: int) -> None:
        if end_offset <= self.high_watermark:
            return
        self._tail.made_durable(end_offset)
        updates = self._updates
        while updates and updates[0].base_offset < end_offset:
            update = updates.popleft()
            self._durable_producers.update(update.header, update.base_offset, update.marker)
        self._durable_producers.advance(end_offset)
        self._tail.trim(self._keeper.tail_limit_bytes())
        self.high_watermark = end_offset
        self._refresh_stable()
        self.on_change()

    # -- cutting

    def truncate(self, to_offset: int) -> None:
        if to_offset >= self.log_end_offset:
            return
        if to_offset >= self.high_watermark:
            self._cut_tail(to_offset)
        else:
            loaded: LoadedLog = self._asked_for(
                ("cut", to_offset),
                lambda connection: truncate_log(
                    connection, self.topic, self.partition, self.partition_id, self.leader_epoch, to_offset
                ),
            )
            self._keeper.cache.forget(self.partition_id)
            self._generation += 1
            before = self._producers
            self._tail.drop()
            self._take(loaded)
            self._producers.inherit(before)
        self._refresh_stable()
        self.on_change()

    def _cut_tail(self, to_offset: int) -> None:
        """Cut off what is not durable."""
        self._generation += 1
        size_bytes = self._tail.size_bytes
        self._tail.cut(to_offset)
        self._size_bytes -= size_bytes - self._tail.size_bytes
        batches = self._tail.batches
        self.log_end_offset = max(self.high_watermark, batches[-1].last_offset + 1 if batches else 0)
        before = self._producers
        self._producers = _copy(self._durable_producers)
        while self._updates and self._updates[-1].base_offset >= self.log_end_offset:
            self._updates.pop()
        self._aborted = [entry for entry in self._aborted if entry.last_offset < self.high_watermark]
        for update in self._updates:
            completed = self._producers.update(update.header, update.base_offset, update.marker)
            if completed is not None and completed.is_aborted:
                self._aborted.append(AbortedEntry.of(completed))
        self._producers.inherit(before)
        self._epochs.truncate_end(self.log_end_offset)
        self._epochs.assign(self.leader_epoch, self.log_end_offset)
        self._refresh_stable()

    def delete_records(self, before_offset: int) -> int:
        before_offset = self._deletable(before_offset)
        if before_offset > self._log_start:
            self._raise_start(before_offset, "DeleteRecords")
        return self._log_start

    @property
    def has_unsaved_start(self) -> bool:
        return self._saved_start < self._log_start

    def log_start_saved(self, start_offset: int) -> None:
        """The database has this log start. Any thread."""
        self._saved_start = max(self._saved_start, start_offset)

    def _raise_start(self, offset: int, reason: str) -> None:
        self._log_start = offset
        self._epochs.truncate_start(offset)
        self._aborted = [entry for entry in self._aborted if entry.last_offset >= offset]
        _logger.info("%s: log start offset raised to %d (%s)", self.name, offset, reason)
        self._refresh_stable()
        self.on_change()

    def delete_old_segments(self, now_ms: int, timestamp_ms: int, *, only_below_start: bool = False) -> int:
        config = self.config
        if only_below_start:
            config = replace(config, retention_ms=-1, retention_bytes=-1)
        expired: ExpiredChunks = self._asked_for(
            ("retention", only_below_start), self._deletion(self._log_start, config, timestamp_ms)
        )
        self._size_bytes -= expired.size_bytes
        self.log_start_saved(expired.start_offset)
        if expired.start_offset > self._log_start:
            self._raise_start(expired.start_offset, "retention")
        return expired.chunk_count

    def _deletion(
        self, start_offset: int, config: TopicConfig, timestamp_ms: int
    ) -> Callable[[Connection[Any]], ExpiredChunks]:
        return lambda connection: delete_expired(
            connection, self.partition_id, self.leader_epoch, start_offset, config, timestamp_ms
        )

    # -- compaction

    def compaction(
        self, timestamp_ms: int, map_bytes: int, max_decompressed_bytes: int
    ) -> CompactionJob | None:
        """A pass over the log, if enough was appended since the last one."""
        config = self.config
        dirty_bytes = self._size_bytes - self._clean_bytes
        if (
            not config.is_compacted
            or dirty_bytes < min(MIN_DIRTY_BYTES, config.segment_bytes)
            or dirty_bytes <= config.min_cleanable_dirty_ratio * self._size_bytes
        ):
            return None
        return CompactionJob(
            partition_id=self.partition_id,
            leader_epoch=self.leader_epoch,
            bound_offset=self._last_stable,
            max_timestamp_ms=timestamp_ms - config.min_compaction_lag_ms
            if config.min_compaction_lag_ms > 0
            else sys.maxsize,
            aborted=[entry for entry in self._aborted if entry.first_offset < self._last_stable],
            rules=CleaningRules(
                timestamp_ms=timestamp_ms,
                delete_retention_ms=config.delete_retention_ms,
                live_producers=live_producers(self._producers, self.high_watermark),
                max_decompressed_bytes=max_decompressed_bytes,
            ),
            map_bytes=map_bytes,
        )

    def compacted(self, freed_bytes: int) -> None:
        """A pass is complete."""
        self._size_bytes -= freed_bytes
        self._clean_bytes = self._size_bytes
        self._keeper.cache.forget(self.partition_id)
        _logger.info("%s: compaction freed %d bytes", self.name, freed_bytes)

    # -- producers

    def expire_producers(self, timestamp_ms: int, expiration_ms: int) -> int:
        self._durable_producers.expire(timestamp_ms, expiration_ms)
        return self._producers.expire(timestamp_ms, expiration_ms)

    def snapshot(self, *, if_due: bool) -> Snapshot | None:
        """What a snapshot of the durable part contains; None when there is no need for one."""
        if self._chunks_since_snapshot < (SNAPSHOT_CHUNKS if if_due else 1):
            return None
        self._chunks_since_snapshot = 0
        return Snapshot(
            self,
            self.high_watermark,
            encode_snapshot(self._durable_producers),
            [
                entry
                for entry in self._aborted
                if self._snapshot_end <= entry.last_offset < self.high_watermark
            ],
        )

    def snapshot_saved(self, end_offset: int) -> None:
        """Producers and aborted transactions below an offset are in the database. Any thread."""
        self._snapshot_end = end_offset

    # -- closing

    def close(self) -> None:
        """Flush, write a snapshot, and close; blocks. Raises LogError when the database fails."""
        try:
            ticket = self.start_sync()
            if ticket is not None:
                try:
                    ticket.run()
                except OSError as error:
                    raise LogError(ErrorCode.kafka_storage_error, f"{self.name}: {error}") from error
                self.finish_sync(ticket)
            if self.has_unsaved_start:
                self._keeper.save_log_start(self, self._log_start)
            if self._refusal is None and (snapshot := self.snapshot(if_due=False)) is not None:
                self._keeper.save_snapshots([snapshot])
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close and write nothing: the log is deleted, or another broker's."""
        self._refusal = LogError(ErrorCode.not_leader_or_follower, f"{self.name}: log is closed")
        self._tail.drop()
        self._keeper.log_closed(self)


def _copy(producers: ProducerState) -> ProducerState:
    return ProducerState(decode_snapshot(encode_snapshot(producers)))
