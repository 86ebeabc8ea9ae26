"""Loading a log from its files, and deciding which of them need recovery."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from klamm.storage.engines.segments import names
from klamm.storage.engines.segments.chain import SegmentChain
from klamm.storage.engines.segments.epochs import LeaderEpochs
from klamm.storage.engines.segments.files import DirectoryEntry, Files, remove_if_there, write_aside
from klamm.storage.engines.segments.handles import HandlePool
from klamm.storage.engines.segments.journal_reading import JournaledBatch
from klamm.storage.engines.segments.journal_replay import replay_journal, write_again
from klamm.storage.engines.segments.leftovers import tidy
from klamm.storage.engines.segments.offset_index import ENTRY_BYTES as OFFSET_ENTRY_BYTES
from klamm.storage.engines.segments.offset_index import CorruptIndexError
from klamm.storage.engines.segments.reading import LogParts
from klamm.storage.engines.segments.recovery import drop_orphan, is_orphan, recover
from klamm.storage.engines.segments.scan import BadBatchError, walk
from klamm.storage.engines.segments.segment import Segment, sync_paths
from klamm.storage.engines.segments.snapshots import Snapshots, restore
from klamm.storage.engines.segments.sync import Flushing
from klamm.storage.engines.segments.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from klamm.storage.engines.segments.txn_index import ENTRY_BYTES as TXN_ENTRY_BYTES
from klamm.storage.producer_state import ProducerState
from klamm.storage.topic_config import TopicConfig

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """The state of a log before it is opened."""

    is_clean: bool  # the last shutdown was clean
    expected_end: int | None = None  # the log end offset at a clean shutdown; None when it is not known
    recovery_point: int | None  # everything below was on disk; None when nothing is known
    log_start_offset: int  # as checkpointed; 0 when nothing is known
    config: TopicConfig
    now_ms: int
    journaled: Sequence[JournaledBatch] = ()  # what must be in the log besides its segments

    @property
    def gaps_up_to(self) -> int:
        """Up to which offset a gap between segments may come from compaction.

        Flushed segments have lost nothing, so their gaps are compaction's. In unflushed ones klamm's
        cleaner leaves none.
        """
        if self.is_clean or (self.recovery_point is None and self.config.is_compacted):
            return sys.maxsize
        return self.recovery_point or 0


@dataclass(slots=True)
class _Found:
    """The files of a partition's directory, by kind."""

    logs: dict[int, DirectoryEntry] = field(default_factory=dict)
    index_sizes: dict[tuple[int, str], int] = field(default_factory=dict)
    snapshots: list[int] = field(default_factory=list)

    def is_sound(self, base_offset: int) -> bool:
        """Whether a segment has the indexes it needs, in sizes that indexes can have."""
        sizes = self.index_sizes
        if self.logs[base_offset].size_bytes and not (
            (base_offset, names.INDEX_SUFFIX) in sizes and (base_offset, names.TIME_INDEX_SUFFIX) in sizes
        ):
            return False
        return not (
            sizes.get((base_offset, names.INDEX_SUFFIX), 0) % OFFSET_ENTRY_BYTES
            or sizes.get((base_offset, names.TIME_INDEX_SUFFIX), 0) % TIME_ENTRY_BYTES
            or sizes.get((base_offset, names.TXN_INDEX_SUFFIX), 0) % TXN_ENTRY_BYTES
        )


def load_parts(files: Files, pool: HandlePool, directory: str, settings: LoadSettings) -> LogParts:
    """Load a log, and repair what the last run left incomplete.

    Loading is idempotent. Raises OSError, and LogError for damage that must not be repaired.
    """
    found = _take_stock(files, directory, tidy(files, directory))
    segments = [
        Segment(
            files,
            pool,
            directory,
            base_offset,
            size_bytes=entry.size_bytes,
            modified_at_ms=entry.modified_at_ms,
            created_at_ms=settings.now_ms,
        )
        for base_offset, entry in sorted(found.logs.items())
    ]
    snapshots = Snapshots(files, directory, found.snapshots)
    if not segments:
        snapshots.remove_outside(0, -1)
        segments = [Segment.create(files, pool, directory, settings.log_start_offset, now_ms=settings.now_ms)]
    start_offset = max(settings.log_start_offset, segments[0].base_offset)

    first_unsound, log_end_offset = _first_unsound(files, segments, found, settings)
    sound = segments if first_unsound is None else segments[:first_unsound]
    epochs = _load_epochs(files, directory, sound)
    if first_unsound is not None:
        # From here on the batches count: the checkpoint may describe a history that was cut.
        epochs.truncate_end(segments[first_unsound].base_offset)
    producers: ProducerState | None = None
    if first_unsound is not None:
        segments, log_end_offset, producers = recover(
            files,
            directory,
            segments,
            first_unsound,
            snapshots=snapshots,
            epochs=epochs,
            index_interval_bytes=settings.config.index_interval_bytes,
            gaps_up_to=settings.gaps_up_to,
        )
    if settings.journaled:
        if not settings.is_clean:
            write_again(segments, settings.journaled, settings.recovery_point or 0)
        # Before the log end is compared with the log start: it may be above only in the journal.
        if producers is None:
            producers = restore(snapshots, segments, log_end_offset)
        log_end_offset = replay_journal(
            segments[-1],
            log_end_offset,
            settings.journaled,
            producers=producers,
            epochs=epochs,
            index_interval_bytes=settings.config.index_interval_bytes,
        )
        if first_unsound is None or first_unsound >= len(segments):
            first_unsound = len(segments) - 1
    if log_end_offset < settings.log_start_offset:
        first_unsound = 0
        segments = [_start_over(files, pool, directory, segments, log_end_offset, settings)]
        log_end_offset, producers = settings.log_start_offset, ProducerState()
    epochs.truncate_end(log_end_offset)
    epochs.truncate_start(start_offset)
    snapshots.remove_outside(segments[0].base_offset, log_end_offset)
    if producers is None:
        producers = restore(snapshots, segments, log_end_offset)
    if not snapshots.has(log_end_offset) and (producers or log_end_offset > segments[0].base_offset):
        snapshots.write(log_end_offset, producers, sync=first_unsound is not None)
    strays = snapshots.take_strays(segment.base_offset for segment in segments)
    if first_unsound is not None:
        if (unsaved_epochs := epochs.unsaved()) is not None:
            write_aside(files, epochs.path, unsaved_epochs, sync=True)
            epochs.saved(unsaved_epochs)
        _sync(files, directory, segments[first_unsound:])
    flushing = Flushing(log_end_offset, segments[-1])
    if not found.logs:
        flushing.names_changed(directory)
    return LogParts(
        chain=SegmentChain(files, pool, directory, segments),
        snapshots=snapshots,
        epochs=epochs,
        producers=producers,
        flushing=flushing,
        log_start_offset=start_offset,
        log_end_offset=log_end_offset,
        stray_snapshots=strays,
    )


def _take_stock(files: Files, directory: str, entries: Sequence[DirectoryEntry]) -> _Found:
    """Sort the files by kind; indexes without a log are removed."""
    found = _Found()
    for entry in entries:
        parsed = names.parse_offset_name(entry.name)
        if parsed is None:
            continue
        if parsed.suffix == names.LOG_SUFFIX:
            found.logs[parsed.offset] = entry
        elif parsed.suffix == names.SNAPSHOT_SUFFIX:
            found.snapshots.append(parsed.offset)
        elif parsed.suffix in names.SEGMENT_SUFFIXES:
            found.index_sizes[parsed.offset, parsed.suffix] = entry.size_bytes
    for base_offset, suffix in list(found.index_sizes):
        if base_offset not in found.logs:
            remove_if_there(files, f"{directory}/{names.file_stem(base_offset)}{suffix}")
            del found.index_sizes[base_offset, suffix]
    return found


def _first_unsound(
    files: Files, segments: list[Segment], found: _Found, settings: LoadSettings
) -> tuple[int | None, int]:
    """The first segment that needs recovery; without one, None and the log end offset."""
    candidates = [
        number
        for number, segment in enumerate(segments)
        if segment.base_offset in found.logs and not found.is_sound(segment.base_offset)
    ][:1]
    # Of a segment that ends right at the recovery point the log is on disk, but perhaps not the indexes.
    recovery_point = settings.recovery_point or 0
    holding = [n for n, segment in enumerate(segments) if segment.base_offset < recovery_point]
    not_flushed = holding[-1] if holding else 0
    if not settings.is_clean:
        candidates.append(not_flushed)
    if candidates:
        return min(candidates), -1
    try:
        for before, segment in pairwise(list(segments)):
            if not segment.size_bytes and is_orphan(segment, before.read_end()):
                drop_orphan(files, segments, segment)
        end_offset = segments[-1].read_end()
    except (CorruptIndexError, BadBatchError) as error:
        _logger.warning("clean-shutdown marker found, but %s; recovering", error)
        return len(segments) - 1, -1
    if settings.expected_end not in (None, end_offset):
        _logger.warning(
            "%s ends at offset %d, but was closed at %d; recovering",
            segments[-1].log_path,
            end_offset,
            settings.expected_end,
        )
        return not_flushed, -1
    return None, end_offset


def _load_epochs(files: Files, directory: str, segments: Sequence[Segment]) -> LeaderEpochs:
    """The checkpointed epochs; without a checkpoint, those of the batches."""
    path = f"{directory}/{names.LEADER_EPOCH_CHECKPOINT}"
    epochs = LeaderEpochs.load(files, path)
    if epochs is None:
        epochs = LeaderEpochs(path, [])
        for segment in segments:
            for batch in walk(files, segment.log_path, end=segment.size_bytes):
                epochs.replay(batch.header.leader_epoch, batch.header.base_offset)
    return epochs


def _start_over(
    files: Files,
    pool: HandlePool,
    directory: str,
    segments: Sequence[Segment],
    log_end_offset: int,
    settings: LoadSettings,
) -> Segment:
    """The log ends below its start: all of its records were deleted by DeleteRecords."""
    _logger.warning(
        "%s: log end offset %d is below the log start offset %d; starting empty at the log start offset",
        directory,
        log_end_offset,
        settings.log_start_offset,
    )
    for segment in reversed(segments):
        segment.close_handle()
        segment.rename(names.DELETED_SUFFIX)
    return Segment.create(files, pool, directory, settings.log_start_offset, now_ms=settings.now_ms)


def _sync(files: Files, directory: str, segments: Sequence[Segment]) -> None:
    """Flush what a killed process may have left only in the page cache."""
    for segment in segments:
        files.sync(segment.handle())
        sync_paths(files, segment.index_paths())
        segment.is_unsynced = False
    files.sync_directory(directory)
