"""One pass over one log: map its keys, write cleaned segments beside the old ones.

A job reads only closed segments and writes its own files, so it may run on any thread while the log is
appended to. The log does not change until its owner installs the cleaned segments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from klamm.protocol.errors import DecodeError
from klamm.protocol.types import Buffer, TopicPartition
from klamm.records.batch import BatchHeader, parse_header
from klamm.records.record import decode_records
from klamm.storage.cleaning_batches import BatchCleaner, CleaningRules, emptied
from klamm.storage.cleaning_map import KeyOffsetMap
from klamm.storage.cleaning_transactions import TransactionFilter
from klamm.storage.engines.segments import names
from klamm.storage.engines.segments.cleaning_plan import group_segments
from klamm.storage.engines.segments.files import Files, remove_if_there
from klamm.storage.engines.segments.handles import HandlePool
from klamm.storage.engines.segments.scan import FoundBatch, walk
from klamm.storage.engines.segments.segment import Segment, sync_path
from klamm.storage.engines.segments.txn_index import AbortedEntry
from klamm.storage.log import LogError
from klamm.storage.topic_config import TopicConfig

_HANDLES: Final = 8


class CleaningCancelledError(Exception):
    """The job was cancelled."""


@dataclass(frozen=True, slots=True)
class SegmentFiles:
    """A closed segment as the job sees it: its file and size."""

    segment: Segment
    log_path: str
    base_offset: int
    size_bytes: int
    next_offset: int  # where the next segment begins

    @classmethod
    def of(cls, segment: Segment, next_offset: int) -> SegmentFiles:
        return cls(segment, segment.log_path, segment.base_offset, segment.size_bytes, next_offset)


@dataclass(frozen=True, slots=True)
class CleanedGroup:
    """Old segments and the one that replaces them, complete and durable."""

    old: tuple[Segment, ...]
    new: Segment


@dataclass(slots=True)
class CleaningCounts:
    """What a pass read and kept."""

    bytes_read: int = 0
    bytes_written: int = 0
    keys: int = 0


@dataclass(slots=True)
class CleaningJob:
    """A planned pass. `run` executes it on any thread; `error` is what stopped it."""

    topic_partition: TopicPartition
    directory: str
    config: TopicConfig
    rules: CleaningRules
    first_dirty_offset: int
    segments: Sequence[SegmentFiles]  # all closed ones below the bound, from the log's start
    aborted: Sequence[AbortedEntry]  # every one that begins below the bound
    mapped: KeyOffsetMap
    files: Files
    throttle: Callable[[int], None]  # called with bytes read and written; may sleep
    dirty_ratio: float = 0.0
    groups: list[CleanedGroup] = field(default_factory=list)
    error: Exception | None = None
    is_cancelled: bool = False
    counts: CleaningCounts = field(default_factory=CleaningCounts)
    _names: Literal["cleaned", "swap", "durable"] = "cleaned"
    _names_error: OSError | None = None

    @property
    def end_offset(self) -> int:
        """Everything below is clean once the job is finished."""
        return self.mapped.last_offset + 1

    def cancel(self) -> None:
        """Stop at the next batch."""
        self.is_cancelled = True

    def run(self) -> None:
        """Execute the pass. Never raises: on failure `error` is set and all output is removed."""
        try:
            self._map_keys()
            self._clean()
        except (DecodeError, LogError, OSError, OverflowError, CleaningCancelledError) as error:
            self.error = error
            self.discard()
        finally:
            self.mapped.clear()  # freed here, not with the last reference, which may be on the owner's thread

    def discard(self) -> None:
        """Remove what was written; the log is unchanged."""
        groups, self.groups = self.groups, []
        for group in groups:
            self._remove(group.new)

    def are_names_durable(self) -> bool:
        """Whether the new segments may be installed: their names say that they are all there. Raises OSError.

        If not, `sync_names` is to be called on any thread.
        """
        if self._names_error is not None:
            raise self._names_error
        if self._names == "cleaned":
            # The newest first: loading drops every .swap at or above the first .cleaned, which marks a set
            # that is complete from one that is not.
            for group in reversed(self.groups):
                group.new.rename(names.SWAP_SUFFIX)
            self._names = "swap"
        return self._names == "durable"

    def sync_names(self) -> None:
        """Make the names of the new segments durable; blocks, and never raises."""
        try:
            self.files.sync_directory(self.directory)
            self._names = "durable"
        except OSError as error:
            self._names_error = error

    def _map_keys(self) -> None:
        """Find the last offset of each key, until the bound or until the map is full."""
        transactions = TransactionFilter(self.aborted)
        self.mapped.advance(self.first_dirty_offset - 1)
        for segment in self.segments:
            if segment.next_offset <= self.first_dirty_offset:
                continue
            for batch in self._walk(segment):
                header = batch.header
                if header.is_control:
                    transactions.on_marker(batch.buffer, batch.at, header)
                elif not transactions.on_data(header) and header.last_offset >= self.first_dirty_offset:
                    records = decode_records(
                        batch.buffer, batch.at, max_bytes=self.rules.max_decompressed_bytes
                    )
                    if not self.mapped.add(records, self.first_dirty_offset):
                        return
                self.mapped.advance(header.last_offset)
            # Gaps of earlier compactions hold nothing to map.
            self.mapped.advance(segment.next_offset - 1)

    def _clean(self) -> None:
        self.counts.keys = len(self.mapped)
        if self.end_offset <= self.first_dirty_offset:
            return  # no key fits
        touched = [segment for segment in self.segments if segment.base_offset < self.end_offset]
        transactions = TransactionFilter(self.aborted)
        cleaner = BatchCleaner(self.rules, self.mapped, transactions)
        planned = [segment.segment for segment in touched]
        for group in group_segments(planned, self.config, touched[-1].next_offset):
            self._clean_group(touched[group.start : group.stop], cleaner, transactions)

    def _clean_group(
        self, group: Sequence[SegmentFiles], cleaner: BatchCleaner, transactions: TransactionFilter
    ) -> None:
        """Write one durable segment that replaces a group."""
        pool = HandlePool(self.files, _HANDLES)  # the log's configuration belongs to another thread
        cleaned = Segment.create(
            self.files,
            pool,
            self.directory,
            group[0].base_offset,
            now_ms=0,  # matters for an active segment only
            suffix=names.CLEANED_SUFFIX,
        )
        try:
            self._write_batches(group, cleaner, cleaned)
            for entry in transactions.take_still_needed():
                cleaned.txn_index.add(entry)
            cleaned.finish()
            self._make_durable(cleaned, self._newest_date_ms(group))
        except BaseException:
            self._remove(cleaned)
            raise
        self.groups.append(CleanedGroup(tuple(segment.segment for segment in group), cleaned))

    def _write_batches(self, group: Sequence[SegmentFiles], cleaner: BatchCleaner, cleaned: Segment) -> None:
        dropped: BatchHeader | None = None
        for segment in group:
            for batch in self._walk(segment):
                kept = cleaner.clean(batch.buffer, batch.at, batch.header)
                dropped = batch.header if kept is None else None
                if kept is not None:
                    self._write(kept, cleaned)
        # The last batch is kept at least as a header. So the log end stays, and a restart in the middle of
        # the swap has the end of this segment and the old ones that it replaces.
        if dropped is not None:
            self._write(emptied(dropped), cleaned)

    def _write(self, kept: Buffer, cleaned: Segment) -> None:
        header = parse_header(kept)
        cleaned.append(
            (kept,),
            len(kept),
            header.last_offset,
            header.max_timestamp_ms,
            self.config.index_interval_bytes,
        )
        self.counts.bytes_written += len(kept)
        self.throttle(len(kept))

    def _walk(self, segment: SegmentFiles) -> Iterator[FoundBatch]:
        """Every batch of a segment, its checksum checked, because a rewritten batch gets a new one."""
        for batch in walk(self.files, segment.log_path, end=segment.size_bytes, check_crc=True):
            if self.is_cancelled:
                raise CleaningCancelledError
            self.counts.bytes_read += batch.header.size_bytes
            self.throttle(batch.header.size_bytes)
            yield batch

    def _make_durable(self, cleaned: Segment, modified_at_ms: int) -> None:
        cleaned.close_handle()
        for path in cleaned.paths():
            if self.files.exists(path):
                sync_path(self.files, path)
        # Retention by time uses the file's modification time where records have no timestamp.
        self.files.set_modified_at(cleaned.log_path, modified_at_ms)
        cleaned.modified_at_ms = modified_at_ms
        cleaned.is_unsynced = False

    def _newest_date_ms(self, group: Sequence[SegmentFiles]) -> int:
        """The latest modification time in a group."""
        paths = {segment.log_path for segment in group}
        dates_ms = [
            entry.modified_at_ms
            for entry in self.files.scan(self.directory)
            if f"{self.directory}/{entry.name}" in paths
        ]
        return max(dates_ms, default=0)  # none are left when the log was deleted in the meantime

    def _remove(self, cleaned: Segment) -> None:
        cleaned.close_handle()
        for path in cleaned.paths():
            remove_if_there(self.files, path)
