"""How dirty a log is, up to where it may be cleaned, and which segments are merged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from klamm.records.batch import HEADER_BYTES
from klamm.storage.topic_config import TopicConfig

_MAX_RELATIVE_OFFSET: Final = (1 << 31) - 1
_LARGEST_ENTRY_BYTES: Final = 12  # of the two indexes, the time index has the larger entries


class PlannedSegment(Protocol):
    """A segment as input of a plan."""

    @property
    def base_offset(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    def max_timestamp(self) -> tuple[int, int]:
        """(largest timestamp, its offset); -1 for none."""
        ...

    def first_timestamp_ms(self) -> int:
        """The largest timestamp of the first batch; -1 for none."""
        ...


class PlannedLog(Protocol):
    """A log as input of a plan."""

    @property
    def config(self) -> TopicConfig: ...
    @property
    def segments(self) -> Sequence[PlannedSegment]:
        """All segments, the active one last."""
        ...

    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def last_stable_offset(self) -> int: ...


class Dirtiness(NamedTuple):
    """The cleanable range of a log."""

    first_dirty_offset: int  # cleaned by earlier passes up to here
    bound_offset: int  # the base offset of the first segment that is not cleaned
    clean_bytes: int
    dirty_bytes: int  # up to the bound
    is_overdue: bool  # a record is older than max.compaction.lag.ms

    @property
    def ratio(self) -> float:
        total_bytes = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total_bytes if total_bytes else 0.0

    def is_due(self, config: TopicConfig) -> bool:
        """Whether a pass should run: by max.compaction.lag.ms or by min.cleanable.dirty.ratio."""
        if not self.dirty_bytes:
            return False
        return self.is_overdue or self.ratio > config.min_cleanable_dirty_ratio


def measure(log: PlannedLog, checkpoint: int | None, timestamp_ms: int) -> Dirtiness:
    """How dirty a log is at a wall-clock time; `checkpoint` is where the last pass ended."""
    *closed, active = log.segments
    first_dirty = checkpoint
    if first_dirty is None or not log.log_start_offset <= first_dirty <= log.log_end_offset:
        first_dirty = log.log_start_offset
    next_bases = [segment.base_offset for segment in (*closed[1:], active)] if closed else []
    dirty = [
        segment
        for segment, next_base in zip(closed, next_bases, strict=True)
        if next_base > first_dirty  # it ends after the clean part
    ]
    bound = _bound(log, closed, dirty, active, timestamp_ms)
    cleanable = [segment for segment in dirty if segment.base_offset < bound]
    return Dirtiness(
        first_dirty_offset=first_dirty,
        bound_offset=max(first_dirty, bound),
        clean_bytes=sum(segment.size_bytes for segment in closed[: len(closed) - len(dirty)]),
        dirty_bytes=sum(segment.size_bytes for segment in cleanable),
        is_overdue=_is_overdue(log.config, dirty, timestamp_ms),
    )


def _bound(
    log: PlannedLog,
    closed: Sequence[PlannedSegment],
    dirty: Sequence[PlannedSegment],
    active: PlannedSegment,
    timestamp_ms: int,
) -> int:
    """The base offset of the first segment that is active, undecided, or too young."""
    stable = log.last_stable_offset
    candidates = [active.base_offset]
    # Only whole segments are cleaned: one with undecided transactions is skipped.
    for index, segment in enumerate(closed):
        following = closed[index + 1] if index + 1 < len(closed) else active
        if following.base_offset > stable:
            candidates.append(segment.base_offset)
            break
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in dirty:
            if segment.max_timestamp()[0] > timestamp_ms - lag_ms:
                candidates.append(segment.base_offset)
                break
    return min(candidates)


def _is_overdue(config: TopicConfig, dirty: Sequence[PlannedSegment], timestamp_ms: int) -> bool:
    latest_ms = timestamp_ms - config.max_compaction_lag_ms
    if latest_ms <= 0:
        return False  # no lag configured: save the reads
    return any(0 < segment.first_timestamp_ms() < latest_ms for segment in dirty)


def group_segments(segments: Sequence[PlannedSegment], config: TopicConfig, end_offset: int) -> list[range]:
    """Which adjacent segments to merge, by index: files and indexes of the result keep their limits.

    `end_offset` is where the last of these segments ends.
    """
    groups: list[range] = []
    size_bytes = 0
    for index, segment in enumerate(segments):
        last = index + 1 == len(segments)
        last_offset = (end_offset if last else segments[index + 1].base_offset) - 1
        if groups:
            current = groups[-1]
            grown_bytes = size_bytes + segment.size_bytes
            if (
                grown_bytes <= config.segment_bytes
                and _index_bytes(grown_bytes, config) <= config.segment_index_bytes
                and last_offset - segments[current.start].base_offset <= _MAX_RELATIVE_OFFSET
            ):
                groups[-1] = range(current.start, index + 1)
                size_bytes = grown_bytes
                continue
        groups.append(range(index, index + 1))
        size_bytes = segment.size_bytes
    return groups


def _index_bytes(size_bytes: int, config: TopicConfig) -> int:
    """The maximal index size for so many bytes of batches."""
    return size_bytes // max(config.index_interval_bytes, HEADER_BYTES) * _LARGEST_ENTRY_BYTES
