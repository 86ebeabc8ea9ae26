"""Recovery after a crash: scan the batches, keep those that are valid, cut the rest."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from klamm.storage.engines.segments import names
from klamm.storage.engines.segments.epochs import LeaderEpochs
from klamm.storage.engines.segments.files import Files, remove_if_there
from klamm.storage.engines.segments.scan import BadBatchError, walk
from klamm.storage.engines.segments.segment import Segment
from klamm.storage.engines.segments.snapshots import Snapshots, replay, restore
from klamm.storage.engines.segments.txn_index import AbortedEntry
from klamm.storage.producer_state import ProducerState

_logger = logging.getLogger(__name__)


class Recovered(NamedTuple):
    """A log whose batches were all checked."""

    segments: list[Segment]
    log_end_offset: int
    producers: ProducerState


def recover(
    files: Files,
    directory: str,
    segments: Sequence[Segment],
    first: int,
    *,
    snapshots: Snapshots,
    epochs: LeaderEpochs,
    index_interval_bytes: int,
    gaps_up_to: int,
) -> Recovered:
    """Scan the segments from the one numbered `first` on, rebuilding indexes, epochs and producer state.

    At the first batch that is incomplete, damaged or out of order the log is cut, and every later segment
    is dropped. Segments that begin up to `gaps_up_to` need not begin where the one before ends: compaction
    may have emptied its end. Above, a gap means that the disk lost batches. Raises OSError.
    """
    producers = restore(snapshots, segments[:first], segments[first].base_offset)
    next_offset = segments[first].base_offset
    segments = list(segments)
    for segment in segments[first:]:
        if is_orphan(segment, next_offset):
            drop_orphan(files, segments, segment)
            continue
        number = segments.index(segment)
        if segment.base_offset < next_offset or segment.base_offset > max(next_offset, gaps_up_to):
            _logger.warning(
                "%s begins at offset %d, but the previous one ends at %d: deleting it and later ones",
                segment.log_path,
                segment.base_offset,
                next_offset,
            )
            _drop(files, directory, segments[number:])
            return Recovered(list(segments[:number]), next_offset, producers)
        if producers or segment.base_offset > segments[0].base_offset:
            snapshots.write(segment.base_offset, producers)
        next_offset, bad = _scan(files, segment, producers, epochs, index_interval_bytes)
        if bad is not None:
            later = segments[number + 1 :]
            _logger.warning(
                "%s: truncating %d bytes and deleting %d later segments, log end offset is %d",
                bad,
                segment.size_bytes - bad.position,
                len(later),
                next_offset,
            )
            # The later ones first: a crash between the two must not leave a hole.
            _drop(files, directory, later)
            segment.cut_unindexed(bad.position)
            segment.finish()
            return Recovered(list(segments[: number + 1]), next_offset, producers)
        segment.finish()
    return Recovered(list(segments), next_offset, producers)


def is_orphan(segment: Segment, next_offset: int) -> bool:
    """Whether a segment is left over from a failed roll: the previous one holds its offsets."""
    return segment.base_offset < next_offset and not segment.size_bytes


def drop_orphan(files: Files, segments: list[Segment], orphan: Segment) -> None:
    """Remove a segment that never held a batch. Raises OSError."""
    _logger.warning("removing %s: empty segment of a failed roll", orphan.log_path)
    orphan.close_handle()
    for path in orphan.paths():
        remove_if_there(files, path)
    segments.remove(orphan)


def _scan(
    files: Files, segment: Segment, producers: ProducerState, epochs: LeaderEpochs, index_interval_bytes: int
) -> tuple[int, BadBatchError | None]:
    """Scan a whole segment; where its valid part ends, and the error there, if any."""
    next_offset = segment.base_offset
    segment.begin_rebuild()
    try:
        for batch in walk(files, segment.log_path, end=segment.size_bytes, check_crc=True):
            header = batch.header
            if header.base_offset < next_offset or header.last_offset_delta < 0:
                raise BadBatchError(
                    segment.log_path,
                    batch.position,
                    f"found offsets {header.base_offset} to {header.last_offset}, expected {next_offset}",
                )
            segment.check_range(batch.position, header.last_offset)
            completed = replay(producers, batch, segment.log_path)
            if completed is not None and completed.is_aborted:
                segment.txn_index.add(AbortedEntry.of(completed))
            epochs.replay(header.leader_epoch, header.base_offset)
            segment.index_batch(
                batch.position,
                header.size_bytes,
                header.last_offset,
                header.max_timestamp_ms,
                index_interval_bytes,
            )
            next_offset = header.next_offset
    except BadBatchError as bad:
        return next_offset, bad
    return next_offset, None


def _drop(files: Files, directory: str, dropped: Sequence[Segment]) -> None:
    for segment in reversed(dropped):
        segment.close_handle()
        segment.rename(names.DELETED_SUFFIX)
    if dropped:
        files.sync_directory(directory)
