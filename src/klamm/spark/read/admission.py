"""How much one micro-batch may take: pure functions of backlog, limits and time."""

from __future__ import annotations

import math
from collections.abc import Mapping

from klamm.config import LONG_MAX
from klamm.protocol.types import TopicPartition
from klamm.spark.read.positions import Positions


def backlog(start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> int:
    """How many offsets are waiting; a partition that is new counts from the offset it starts at."""
    return sum(max(0, offset - start.get(partition, 0)) for partition, offset in latest.items())


def limit_by_share(
    limit: int, start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]
) -> Positions:
    """The end of a batch of about `limit` offsets, each partition in proportion to its backlog.

    `start` has every partition of `latest`. A share is rounded down, but up when it is below one: no
    partition with data starves. A limit of 0 admits nothing.
    """
    sizes = {
        partition: offset - start[partition]
        for partition, offset in latest.items()
        if offset > start[partition]
    }
    total = sum(sizes.values())
    ends = dict(latest)
    for partition, size in sizes.items():
        share = limit * (size / total)
        taken = math.ceil(share) if share < 1 else math.floor(share)
        ends[partition] = min(latest[partition], start[partition] + taken, LONG_MAX)
    return ends


def must_wait(
    *, minimum: int, waiting: int, last_batch_at_ms: int | None, now_ms: int, max_delay_ms: int
) -> bool:
    """Whether a batch waits for more data; the first one of a run never does."""
    if last_batch_at_ms is None or now_ms - last_batch_at_ms >= max_delay_ms:
        return False
    return waiting < minimum
