"""Ranges of offsets, and how large ones become several tasks: a pure function of ranges and options.

After a crash Spark plans a batch again from the same offsets; rows meet the same tasks only because nothing
but those offsets decides here. The arithmetic is that of Spark's own Kafka connector.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from klamm.protocol.types import TopicPartition


class OffsetRange(NamedTuple):
    """The offsets from `start_offset` to below `next_offset` of one partition."""

    partition: TopicPartition
    start_offset: int
    next_offset: int

    @property
    def size(self) -> int:
        """How many offsets; records may be fewer, after compaction or around transactions."""
        return self.next_offset - self.start_offset


def split(
    ranges: Iterable[OffsetRange],
    *,
    min_partitions: int | None = None,
    max_records_per_partition: int | None = None,
) -> list[OffsetRange]:
    """The ranges that tasks read, in order; empty ones are left out.

    First no range keeps more than `max_records_per_partition` offsets; then, if there are fewer than
    `min_partitions`, the large ones are divided in proportion to their size. The number of tasks is
    near `min_partitions`, not exactly there.
    """
    found = sorted(item for item in ranges if item.size > 0)
    if max_records_per_partition is not None:
        found = [
            part for item in found for part in divide(item, math.ceil(item.size / max_records_per_partition))
        ]
    if min_partitions is None or len(found) >= min_partitions:
        return found
    return _spread(found, min_partitions)


def _spread(ranges: Sequence[OffsetRange], min_partitions: int) -> list[OffsetRange]:
    total = sum(item.size for item in ranges)
    whole = [item for item in ranges if _part_count(item.size, total, min_partitions) == 1]
    # What stays whole must not thin out the share of what is divided.
    whole_partitions = {item.partition for item in whole}
    divided_total = total - sum(item.size for item in whole)
    parts_left = max(min_partitions - len(whole), 1)
    spread: list[OffsetRange] = []
    for item in ranges:
        count = 1
        if item.partition not in whole_partitions:
            count = _part_count(item.size, divided_total, parts_left)
        spread += divide(item, count)
    return spread


def _part_count(size: int, total: int, parts: int) -> int:
    # Halves go up, as Java's Math.round has it; Python's would go to the even neighbour.
    return max(math.floor(size / total * parts + 0.5), 1)


def divide(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """A range in nearly equal parts, the larger ones last; parts without offsets are left out."""
    found: list[OffsetRange] = []
    start_offset, left = whole.start_offset, whole.size
    for index in range(parts):
        size = left // (parts - index)
        left -= size
        if size:
            found.append(OffsetRange(whole.partition, start_offset, start_offset + size))
        start_offset += size
    return found
