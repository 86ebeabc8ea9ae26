"""Which segments retention deletes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from klamm.storage.engines.segments.segment import Segment
from klamm.storage.topic_config import TopicConfig


class ExpiredSegments(NamedTuple):
    """How many of the oldest segments to delete, and why."""

    segment_count: int
    reason: str


def expired_segments(
    segments: Sequence[Segment],
    config: TopicConfig,
    *,
    log_start_offset: int,
    high_watermark: int,
    log_end_offset: int,
    timestamp_ms: int,
    only_below_start: bool = False,
) -> ExpiredSegments:
    """How many of the oldest segments to delete, by the first rule that matches: log start, size, time.

    Never anything at or above the high watermark, and never an empty active segment.
    """

    def next_base(index: int) -> int | None:
        return segments[index + 1].base_offset if index + 1 < len(segments) else None

    def leading(rule: Callable[[int], bool]) -> int:
        count = 0
        for index, segment in enumerate(segments):
            following = next_base(index)
            is_empty_active = following is None and not segment.size_bytes
            end_offset = log_end_offset if following is None else following
            if is_empty_active or high_watermark < end_offset or not rule(index):
                break
            count += 1
        return count

    def is_below_start(index: int) -> bool:
        following = next_base(index)
        # Unlike in Kafka the active one, too: all of its records are deleted, and it may be a gigabyte.
        return (log_end_offset if following is None else following) <= log_start_offset

    if count := leading(is_below_start):
        return ExpiredSegments(count, f"below log start offset {log_start_offset}")
    if only_below_start or not config.deletes_old_segments:
        return ExpiredSegments(0, "")
    if config.retention_bytes >= 0:
        excess = sum(segment.size_bytes for segment in segments) - config.retention_bytes

        def is_in_excess(index: int) -> bool:
            nonlocal excess
            excess -= segments[index].size_bytes
            return excess >= 0

        if count := leading(is_in_excess):
            return ExpiredSegments(count, f"log exceeds retention.bytes={config.retention_bytes}")
    if config.retention_ms >= 0:
        oldest_ms = timestamp_ms - config.retention_ms
        if count := leading(lambda index: segments[index].age_timestamp_ms() < oldest_ms):
            return ExpiredSegments(count, f"older than retention.ms={config.retention_ms}")
    return ExpiredSegments(0, "")
