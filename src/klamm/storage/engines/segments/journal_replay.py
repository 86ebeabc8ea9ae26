"""Writing what a journal holds of a partition to its segments, after a crash."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from klamm.protocol.errors import ErrorCode
from klamm.storage.engines.segments.epochs import LeaderEpochs
from klamm.storage.engines.segments.journal_reading import JournaledBatch
from klamm.storage.engines.segments.scan import FoundBatch
from klamm.storage.engines.segments.segment import Segment
from klamm.storage.engines.segments.snapshots import replay
from klamm.storage.engines.segments.txn_index import AbortedEntry
from klamm.storage.log import LogError
from klamm.storage.producer_state import ProducerState

_logger = logging.getLogger(__name__)


def replay_journal(
    active: Segment,
    log_end_offset: int,
    batches: Iterable[JournaledBatch],
    *,
    producers: ProducerState,
    epochs: LeaderEpochs,
    index_interval_bytes: int,
) -> int:
    """Append the batches that follow the end of a log, whose last segment this is; its new end.

    Batches that the log has are skipped, so it can be repeated. So are those of a leader epoch older than the
    log's: a later leader has replayed what counts. The caller makes the segment durable. Raises OSError, and
    LogError when batches between the log and the journal are missing.
    """
    first_offset = log_end_offset
    for header, data in batches:
        if header.last_offset < log_end_offset or header.leader_epoch < epochs.latest_epoch:
            continue
        if header.base_offset != log_end_offset:
            raise LogError(
                ErrorCode.kafka_storage_error,
                f"{active.log_path}: the log ends at offset {log_end_offset}, "
                f"but the journal continues at {header.base_offset}",
            )
        position = active.size_bytes
        active.append((data,), len(data), header.last_offset, header.max_timestamp_ms, index_interval_bytes)
        completed = replay(producers, FoundBatch(position, header, data, 0), active.log_path)
        if completed is not None and completed.is_aborted:
            active.txn_index.add(AbortedEntry.of(completed))
        epochs.replay(header.leader_epoch, header.base_offset)
        log_end_offset = header.next_offset
    if log_end_offset > first_offset:
        active.finish()
        _logger.info(
            "%s: appended offsets %d to %d from the journal", active.log_path, first_offset, log_end_offset
        )
    return log_end_offset


def write_again(segments: Sequence[Segment], batches: Iterable[JournaledBatch], from_offset: int) -> None:
    """Write batches again that the segments have, from an offset on.

    They may be in the page cache only. If the process that was killed could not sync them, the kernel has
    marked their pages clean, and no sync of another process writes them. The caller makes the segments
    durable, before the journal is used again. Batches that were replaced, as by compaction, stay as they are.
    Raises OSError.
    """
    bases = [segment.base_offset for segment in segments]
    run = _Run()
    for header, data in batches:
        offset = header.base_offset
        if offset < max(from_offset, bases[0]):
            continue
        segment = segments[bisect_right(bases, offset) - 1]
        position = run.end if segment is run.segment and offset == run.next_offset else segment.locate(offset)
        if position + len(data) > segment.size_bytes or segment.read(position, len(data)) != data:
            continue
        if segment is not run.segment or position != run.end:
            run.write()
            run = _Run(segment, position)
        run.add(data, header.next_offset)
    run.write()


class _Run:
    """Batches that follow each other in a segment, for one write."""

    def __init__(self, segment: Segment | None = None, position: int = 0) -> None:
        self.segment = segment
        self._position = position
        self._data: list[bytes] = []
        self.end = position
        self.next_offset = -1

    def add(self, data: bytes, next_offset: int) -> None:
        self._data.append(data)
        self.end += len(data)
        self.next_offset = next_offset

    def write(self) -> None:
        if self.segment is not None:
            self.segment.write_again(self._position, b"".join(self._data))
