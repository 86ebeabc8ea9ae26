"""The writing part of a partition's log: appends, flushes, truncation and retention."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from struct import Struct
from typing import Final, cast

from klamm.clock import Clock
from klamm.protocol.errors import ErrorCode
from klamm.records.batch import LENGTH_AT, LOG_APPEND_TIME_BIT, BatchHeader
from klamm.records.core import stamped
from klamm.records.markers import EndMarker
from klamm.storage.durability import SyncTicket
from klamm.storage.engines.segments.closing import Closing
from klamm.storage.engines.segments.files import Chunk
from klamm.storage.engines.segments.holding_back import HoldingBack
from klamm.storage.engines.segments.journal import Journal
from klamm.storage.engines.segments.keeper import LogKeeper
from klamm.storage.engines.segments.reading import LogParts, ReadableLog, storage_error
from klamm.storage.engines.segments.repair import Repair, RepairTicket
from klamm.storage.engines.segments.retention import expired_segments
from klamm.storage.engines.segments.rewriting import write_again
from klamm.storage.engines.segments.segment import Segment, sync_paths
from klamm.storage.engines.segments.snapshots import restore
from klamm.storage.engines.segments.sync import SegmentSyncTicket
from klamm.storage.engines.segments.txn_index import AbortedEntry
from klamm.storage.log import AppendOrigin, AppendResult, LogError, MustLoadError, Work
from klamm.storage.producer_gate import refuse_too_large, sized_header
from klamm.storage.producer_state import BatchSummary
from klamm.storage.topic_config import TopicConfig

_logger = logging.getLogger(__name__)

_STAMP: Final = Struct(">qii")  # base offset, length, leader epoch: what an append overwrites
_STAMP_BYTES: Final = _STAMP.size
_OWN: Final = Struct(">i11xi8xq")  # length, last offset delta, largest timestamp: of a batch of our own
_LITTLE_BYTES: Final = 4096
_MUCH_BYTES: Final = 64 * 1024
_OF_CLIENT: Final = AppendOrigin.CLIENT  # an enum's member is looked up slowly


class SegmentLog(ReadableLog):
    """A PartitionLog in Kafka's on-disk format."""

    def __init__(
        self,
        parts: LogParts,
        *,
        topic: str,
        topic_id: bytes,
        partition: int,
        leader_epoch: int,
        config: TopicConfig,
        clock: Clock,
        keeper: LogKeeper,
        flush_on_commit: bool,
        journal: Journal | None = None,
        is_always_journaled: bool = False,
    ) -> None:
        super().__init__(parts)
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.config = config
        self.leader_epoch = leader_epoch
        self._clock = clock
        self._keeper = keeper
        self._reserve = keeper.reserve
        self._flush_on_commit = flush_on_commit
        self._journal = journal if flush_on_commit else None
        self.held_back = None if self._journal is None else HoldingBack(parts.chain)
        self.is_always_journaled = is_always_journaled
        self._repair = Repair(parts.chain)
        self._is_in_doubt = False  # before an append: a repair is due, or there are files to write again
        self._closing: Closing | None = None
        self._is_let_go = False  # its files may be those of another log by now
        self._refusal: LogError | None = None  # why appends are rejected from now on
        self.cleaned_to: int | None = None  # the end of the last compaction
        self._epochs.assign(leader_epoch, self.log_end_offset)
        self._epochs.writer = f"{topic_id.hex()}-{leader_epoch}"
        self._refresh_stable()

    # -- appending

    def append(
        self,
        batch: bytes | bytearray | memoryview,
        now_ms: int,
        timestamp_ms: int,
        origin: AppendOrigin = _OF_CLIENT,
        marker_bumps_epoch: bool = False,
        guard: int | None = None,
        header: BatchHeader | None = None,
        write_later: bool = False,
        must_continue: bool = False,
    ) -> AppendResult:
        header = sized_header(batch, header)
        size_bytes = len(batch)
        if self._refusal is not None or self._is_in_doubt or self._reserve.is_full:
            self._make_appendable(header)
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        max_timestamp_ms = header.max_timestamp_ms
        config = self.config
        active = self._chain.active
        if active.must_roll(config, size_bytes, last_offset, max_timestamp_ms, now_ms):
            active = self._roll_for(header, size_bytes, now_ms)
        marker: EndMarker | None = None
        if header.producer_id >= 0:
            found = self._admit(batch, header, origin, marker_bumps_epoch, guard, must_continue)
            if type(found) is BatchSummary:
                return AppendResult(found.first_offset, found.last_offset, found.timestamp_ms, True)
            marker = cast("EndMarker | None", found)
        # For a few bytes a copy is cheaper than a view.
        if size_bytes < _LITTLE_BYTES:
            chunks: list[Chunk] = [stamped(batch, base_offset, self.leader_epoch)]
        else:
            stamp = _STAMP.pack(base_offset, header.batch_length, self.leader_epoch)
            chunks = [stamp, memoryview(batch)[_STAMP_BYTES:]]
        try:
            active.append(
                chunks,
                size_bytes,
                last_offset,
                max_timestamp_ms,
                config.index_interval_bytes,
                write_later and self._flush_on_commit and not _keeps_much_alive(batch),
            )
        except OSError as error:
            raise self._write_failed(header, error) from error
        self.log_end_offset = last_offset + 1
        if header.producer_id >= 0:
            completed = self._appended(header, base_offset, marker)
            if completed is not None and completed.is_aborted:
                active.txn_index.add(AbortedEntry.of(completed))
        if not self._flush_on_commit:
            self._flushing.appended()
            self._raise_high_watermark(last_offset + 1, active, active.size_bytes)
        append_time_ms = max_timestamp_ms if header.attributes & LOG_APPEND_TIME_BIT else -1
        return AppendResult(base_offset, last_offset, append_time_ms)

    def append_own(self, batch: bytes, now_ms: int) -> int:
        base_offset = self.log_end_offset
        _, delta, max_timestamp_ms = _OWN.unpack_from(batch, LENGTH_AT)
        is_refusing = self._refusal is not None or self._is_in_doubt or self._reserve.is_full
        if self._flush_on_commit and not is_refusing:
            last_offset = base_offset + delta
            active = self._chain.active
            if active.append_pending(
                stamped(batch, base_offset, self.leader_epoch),
                last_offset,
                max_timestamp_ms,
                self.config,
                now_ms,
            ):
                self.log_end_offset = last_offset + 1
                return base_offset
        origin = AppendOrigin.COORDINATOR
        self.append(batch, now_ms, max_timestamp_ms, origin, write_later=True)
        return base_offset

    def _write_failed(self, header: BatchHeader, error: OSError) -> LogError:
        """A write failed, perhaps after some of its bytes: they must never become visible."""
        self._producers.refused(header)
        active = self._chain.active
        try:
            self._repair.cut_tail()
        except OSError as worse:
            _logger.warning("%s: truncating after a failed write failed: %s", active.log_path, worse)
        self._wait_for_repair()
        return storage_error(active.log_path, error)

    def _wait_for_repair(self) -> None:
        self._is_in_doubt = True
        self.flush_soon()

    def _make_appendable(self, header: BatchHeader) -> None:
        """Retry the writes that failed before. LogError if they fail again, and until a repair is done."""
        if self._refusal is not None:
            raise self._refusal
        if self._reserve.is_full or self._repair.is_due:
            self._producers.refused(header)
            why = self._reserve.why
            if self._repair.is_due:
                self.flush_soon()
                why = f"{self.directory}: what a failed write or flush has left is being removed"
            raise LogError(ErrorCode.kafka_storage_error, why)
        try:
            self._flushing.write_suspects(self._chain.files)
        except OSError as error:
            self._producers.refused(header)
            raise storage_error(self._chain.active.log_path, error) from error
        self._is_in_doubt = False

    def _roll_for(self, header: BatchHeader, size_bytes: int, now_ms: int) -> Segment:
        refuse_too_large(size_bytes, self.config.segment_bytes)
        try:
            self.roll(now_ms)
        except OSError as error:
            self._producers.refused(header)
            raise storage_error(self.directory, error) from error
        return self._chain.active

    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the log end. Raises OSError; then the old one stays active."""
        if not self._chain.active.size_bytes:
            return
        self._chain.active.finish()
        self._chain.active.is_unsynced = True  # its indexes are dirty, even if its log is not
        self._snapshots.write(self.log_end_offset, self._producers)
        self._flushing.include_file(self._snapshots.path(self.log_end_offset))
        self._chain.add(self.log_end_offset, now_ms)
        self._flushing.names_changed(self.directory)
        _logger.info("%s-%d: rolled a segment at %d", self.topic, self.partition, self.log_end_offset)

    # -- flushing

    @property
    def is_writable(self) -> bool:
        return self._refusal is None

    def sync_is_due(self, now_ms: int) -> bool:
        if self._flushing.durable_offset >= self.log_end_offset:
            return False
        if self._flush_on_commit:
            return True
        return self._flushing.is_due(self.config, self._chain.active.base_offset, now_ms)

    @property
    def is_being_repaired(self) -> bool:
        return self._repair.is_due

    def start_sync(self) -> SegmentSyncTicket | RepairTicket | None:
        if self._refusal is not None:
            return None
        if self._repair.is_due:
            return self._start_repair()
        if self._flushing.durable_offset >= self.log_end_offset:
            return None
        return self._ticket(self._journal)

    def _start_repair(self) -> RepairTicket:
        """Raises OSError; then the log is lost."""
        try:
            return self._repair.start(self._flushing.durable_offset)
        except OSError as error:
            self.lose(error)
            raise

    def start_segment_sync(self) -> SegmentSyncTicket | None:
        if self._flushing.recovery_point >= self.log_end_offset or self._refusal is not None:
            return None
        if self._repair.is_due:
            return None  # first that
        try:
            return self._ticket(None)
        except LogError:
            return None  # the journal keeps what it holds until the disk has room again

    def _ticket(self, journal: Journal | None) -> SegmentSyncTicket:
        """Raises LogError when what an earlier flush left cannot be written again."""
        try:
            if self._flushing.has_suspects:
                self._flushing.write_suspects(self._chain.files)
            if self._chain.active.is_suspect or self._flushing.recovery_place[0].is_suspect:
                write_again(self._flushing, self._chain.segments, partial(self._keeper.journaled, self))
        except OSError as error:
            raise storage_error(self.directory, error) from error
        now_ms = self._clock.now_ms()
        return self._flushing.start(self._chain, self._epochs, self.log_end_offset, now_ms, journal, self)

    def finish_sync(self, ticket: SyncTicket) -> None:
        assert isinstance(ticket, SegmentSyncTicket | RepairTicket)
        if self._is_let_go:
            ticket.release()
            return
        if isinstance(ticket, RepairTicket):
            self._repair.finish(ticket)
            if self._repair.is_due or self.is_dirty:
                self.flush_soon()
            self.on_change()
            return
        if self._flushing.finish(ticket, self._chain, self._epochs) and self._flush_on_commit:
            segment, position = self._flushing.durable_place
            self._raise_high_watermark(ticket.end_offset, segment, position)

    def fail_sync(self, ticket: SyncTicket) -> None:
        assert isinstance(ticket, SegmentSyncTicket | RepairTicket)
        if self._is_let_go:
            ticket.release()
            return
        if isinstance(ticket, RepairTicket):
            ticket.release()
            raise self.lose(OSError("making durable what was cut failed"))
        self._repair.sync_failed()
        if self._flushing.fail(ticket, self._epochs, self.directory) and self._refusal is None:
            self.truncate(self._flushing.durable_offset)
        try:
            self._flushing.write_suspects(self._chain.files)
        except OSError as error:
            # The disk may be full, and have room again later.
            self._is_in_doubt = True
            _logger.warning("%s: writing again after a failed flush failed: %s", self.directory, error)

    # -- cutting

    def delete_records(self, before_offset: int) -> int:
        before_offset = self._deletable(before_offset)
        if before_offset > self._log_start:
            self._log_start = before_offset
            self._epochs.truncate_start(before_offset)
            raised = "%s-%d: log start offset raised to %d by DeleteRecords"
            _logger.info(raised, self.topic, self.partition, before_offset)
            self._refresh_stable()
            self.on_change()
        return self._log_start

    def truncate(self, to_offset: int) -> None:
        if to_offset >= self.log_end_offset:
            return
        try:
            self._cut(to_offset)
        except OSError as error:
            raise self.lose(error) from error
        self.on_change()

    def _cut(self, to_offset: int) -> None:
        old_end = self.log_end_offset
        if to_offset < self._flushing.durable_offset:
            self._keeper.cutting(self, to_offset)
        # The repair makes this durable, too: a snapshot that survived would be of another history.
        has_old_names = self._snapshots.remove_outside(self._chain.segments[0].base_offset, to_offset)
        self.log_end_offset, dropped = self._chain.cut(to_offset, self._log_start, self._clock.now_ms())
        self._flushing.cut(self.log_end_offset, self._chain)
        self._keeper.recovery_point_fell(self)
        self._forget(dropped)
        self._epochs.truncate_end(self.log_end_offset)
        self._epochs.assign(self.leader_epoch, self.log_end_offset)
        first_offset = self._chain.segments[0].base_offset
        has_old_names |= self._snapshots.remove_outside(first_offset, self.log_end_offset)
        self._repair.cut(has_old_names=has_old_names or bool(dropped))
        self._wait_for_repair()
        before = self._producers
        self._producers = restore(self._snapshots, self._chain.segments, self.log_end_offset)
        self._producers.inherit(before)
        if self.high_watermark >= self.log_end_offset:
            self.high_watermark = self.log_end_offset
            self._high_watermark_place = (self._chain.active, self._chain.active.size_bytes)
        self._refresh_stable()
        _logger.warning(
            "%s-%d: truncated from %d to %d", self.topic, self.partition, old_end, self.log_end_offset
        )

    def _forget(self, dropped: Sequence[Segment]) -> None:
        """Segments left the chain: delete their files after the delay, their snapshots at once."""
        for segment in dropped:
            if segment.base_offset != self.log_end_offset:
                self._snapshots.remove(segment.base_offset)
        paths = [path for segment in dropped for path in segment.paths()]
        self._keeper.remove_later(paths, self.config.file_delete_delay_ms)

    def delete_old_segments(self, now_ms: int, timestamp_ms: int, *, only_below_start: bool = False) -> int:
        deleted = 0
        while True:
            expired = expired_segments(
                self._chain.segments,
                self.config,
                log_start_offset=self._log_start,
                high_watermark=self.high_watermark,
                log_end_offset=self.log_end_offset,
                timestamp_ms=timestamp_ms,
                only_below_start=only_below_start,
            )
            if not expired.segment_count:
                return deleted
            try:
                self._delete_oldest(expired.segment_count, expired.reason, now_ms)
            except OSError as error:
                raise storage_error(self.directory, error) from error
            deleted += expired.segment_count

    def _delete_oldest(self, count: int, reason: str, now_ms: int) -> None:
        if count == len(self._chain.segments):
            self.roll(now_ms)
        new_start = self._chain.segments[count].base_offset
        self._snapshots.require_durable(new_start)
        # The log start rises first: no reader may look up a segment that is about to be removed.
        if new_start > self._log_start:
            self._log_start = new_start
            self._epochs.truncate_start(new_start)
        self._forget(self._chain.drop_oldest(count))
        self._flushing.names_changed(self.directory)
        _logger.info(
            "%s-%d: deleted %d segments (%s), log start offset is %d",
            self.topic,
            self.partition,
            count,
            reason,
            self._log_start,
        )
        self._refresh_stable()
        self.on_change()

    def replace_segments(self, old: Sequence[Segment], new: Sequence[Segment]) -> None:
        """Replace inactive segments with cleaned ones (finished, durable, named `.swap`). Raises OSError."""
        assert self._chain.active not in old
        self._chain.replace(old, new, self._clock.now_ms())
        self._flushing.names_changed(self.directory)
        paths = [path for segment in old for path in segment.paths()]
        self._keeper.remove_later(paths, self.config.file_delete_delay_ms)

    def lose(self, error: OSError) -> LogError:
        """The disk failed in the middle of a change: only loading the log again can determine its state."""
        self._refusal = storage_error(self.directory, error)
        return self._refusal

    def cleaned(self, end_offset: int) -> None:
        """The segments below an offset are compacted; the next checkpoint says so."""
        self.cleaned_to = end_offset

    # -- closing

    def expire_producers(self, timestamp_ms: int, expiration_ms: int) -> int:
        return self._producers.expire(timestamp_ms, expiration_ms)

    def close(self) -> None:
        """Flush, write what a clean start reads, and close; blocks. Raises LogError when the disk fails."""
        while True:
            try:
                self.go_on_closing()
            except MustLoadError as step:
                step.load()
            else:
                return

    def go_on_closing(self) -> None:
        """As `close`, but raises MustLoadError for each step that blocks."""
        if self._is_let_go:
            return
        failure: LogError | None = None
        if self._refusal is None:
            self.flush_soon = lambda: None  # all that is due is done here, perhaps on another thread
            closing = self._closing = self._closing or Closing(self._put_in_order())
            try:
                closing.go_on()
            except LogError as error:
                failure = error
            except OSError as error:
                failure = storage_error(self.directory, error)
        is_clean = self._refusal is None and failure is None
        self._let_go("log is closed")
        write_checkpoint = self._keeper.log_closed(self, is_clean=is_clean)
        if failure is not None:
            raise failure
        if is_clean:
            raise closing.waits_for(write_checkpoint)

    def _put_in_order(self) -> Iterator[Work]:
        """What is to be synced, step by step. Raises OSError and LogError."""
        if self.held_back is not None and self.held_back.is_active:
            self._cut(self._flushing.durable_offset)
            self.held_back.end()
        while self._repair.is_due:
            repair = self._repair.start(self._flushing.durable_offset)
            repair.keep_open()
            yield repair.run
            self._repair.finish(repair)
        if self.recovery_point < self.log_end_offset or self._flushing.has_new_names:
            ticket = self._ticket(None)
            ticket.keep_open()
            yield ticket.run
            self.finish_sync(ticket)
        active = self._chain.active
        paths = active.index_paths() if active.finish() else []
        if not self._snapshots.has(self.log_end_offset) and (
            self._producers or self.log_end_offset > self._chain.segments[0].base_offset
        ):
            self._snapshots.write(self.log_end_offset, self._producers)
            paths.append(self._snapshots.path(self.log_end_offset))
        if paths:
            yield partial(sync_paths, self._chain.files, paths)

    def abandon(self) -> None:
        """Close and write nothing: the log is deleted, or another broker's."""
        self._let_go("log is closed")

    def _let_go(self, reason: str) -> None:
        self._chain.close()
        self._epochs.retire()
        self._is_let_go = True
        self._refusal = LogError(ErrorCode.not_leader_or_follower, f"{self.topic}-{self.partition}: {reason}")


def _keeps_much_alive(batch: bytes | bytearray | memoryview) -> bool:
    """Whether a batch is a small part of a request, which stays in memory as long as the batch does."""
    return type(batch) is memoryview and len(cast("bytes", batch.obj)) - len(batch) > _MUCH_BYTES
