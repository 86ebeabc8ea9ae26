"""Where groups stand: the lag of each partition, and each group as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from klamm.groups.sinks import GROUP_SUFFIX, MARK
from klamm.protocol.types import TopicPartition
from klamm.spark.audit.history import NO_TIME, CommitProgress
from klamm.spark.audit.steps import Standing
from klamm.spark.decode.record_tables import Row

_NO_OFFSET: Final = -1
EndOffsets = Callable[[list[TopicPartition]], Mapping[TopicPartition, int]]


class KnownEnds:
    """End offsets, each asked for once: groups of many ranges read the same topics."""

    def __init__(self, ask: EndOffsets) -> None:
        self._ask = ask
        self._known: dict[TopicPartition, int | None] = {}  # None: there is no such partition

    def __call__(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        wanted = [key for key in partitions if key not in self._known]
        if wanted:
            found = self._ask(wanted)
            self._known |= {key: found.get(key) for key in wanted}
        known = ((key, self._known[key]) for key in partitions)
        return {key: end for key, end in known if end is not None}


def lag_of(latest: Any, end_offsets: EndOffsets, as_of_ms: int) -> Any:
    """Rows of `lag` for rows of `latest_offsets`. A partition that does not exist has no lag."""
    # The exactly-once sink keeps the number of its last batch as an offset: that is no place in a topic.
    is_decision = pc.and_(
        pc.ends_with(latest.column("group_id").cast(pa.string()), GROUP_SUFFIX),
        pc.starts_with(latest.column("metadata"), MARK),
    )
    latest = latest.filter(pc.invert(is_decision.fill_null(False)))
    committed = latest.column("committed_offset").to_numpy()
    ends = _ends(latest.column("topic"), latest.column("partition").to_numpy(), end_offsets)
    is_missing = ends == _NO_OFFSET
    at_ms = pc.divide(latest.column("commit_ts").cast(pa.int64()), 1000)
    rows = latest.num_rows
    return pa.RecordBatch.from_arrays(
        [
            *(latest.column(name) for name in ("group_id", "topic", "partition", "committed_offset")),
            pa.array(ends, mask=is_missing),
            pa.array(np.maximum(ends - committed, 0), mask=is_missing),
            pc.subtract(pa.scalar(as_of_ms, pa.int64()), at_ms),
            pa.repeat(pa.scalar(as_of_ms * 1000, pa.int64()), rows).view(pa.timestamp("us", "UTC")),
        ],
        names=[
            *("group_id", "topic", "partition", "committed_offset"),
            *("log_end_offset", "lag", "commit_age_ms", "as_of"),
        ],
    )


def _ends(topic: Any, partition: Any, end_offsets: EndOffsets) -> Any:
    """The end of each row's partition; -1 for one that does not exist."""
    pairs = topic.indices.to_numpy().astype(np.int64) << 32 | partition.astype(np.uint32)
    found = pa.array(pairs).dictionary_encode()
    names = topic.dictionary.to_pylist()
    wanted = [TopicPartition(names[pair >> 32], pair & 0xFFFFFFFF) for pair in found.dictionary.to_pylist()]
    ends = end_offsets(wanted) if wanted else {}
    return np.array([ends.get(key, _NO_OFFSET) for key in wanted], np.int64)[found.indices.to_numpy()]


def group_rows(
    standings: Mapping[str, Standing],
    lag: Any,
    moves: Mapping[str, CommitProgress],
    *,
    as_of_ms: int,
    retention_ms: int,
    stuck_ms: int,
) -> Iterator[Row]:
    """Rows of `groups`. A group that is known by its offsets alone has no members."""
    lags = _lags(lag)
    names = [name for name, standing in standings.items() if not standing.is_tombstone]
    for name in dict.fromkeys((*names, *lags)):
        standing = standings.get(name)
        if standing is not None and standing.is_tombstone:
            standing = None
        behind, partition_count = lags.get(name, (None, 0))
        moved = moves.get(name)
        members = (standing.member_count if standing else 0) or 0
        last_us = _time(moved.last_commit_us if moved else NO_TIME)
        progress_us = _time(moved.last_progress_us if moved else NO_TIME)
        since = [time for time in (last_us, standing.since_us if standing else None) if time is not None]
        yield {
            "group_id": name,
            "group_type": standing and standing.group_type,
            "member_count": members,
            "generation": standing and standing.generation,
            "partition_count": partition_count,
            "lag": behind,
            "commit_count": moved and moved.commit_count,
            "last_commit_ts": last_us,
            "last_progress_ts": progress_us,
            "expires_ts": (max(since) // 1000 + retention_ms) * 1000 if since and not members else None,
            "is_stuck": bool(
                members and behind and progress_us is not None and as_of_ms - progress_us // 1000 >= stuck_ms
            ),
        }


def _time(time_us: int) -> int | None:
    return None if time_us == NO_TIME else time_us


def _lags(lag: Any) -> dict[str, tuple[int | None, int]]:
    """The lag of each group over all partitions that exist, and how many partitions it has."""
    if not lag.num_rows:
        return {}
    group = lag.column("group_id")
    numbers = group.indices.to_numpy()
    behind = lag.column("lag")
    counts = np.bincount(numbers, minlength=len(group.dictionary)).tolist()
    is_there = behind.is_valid().to_numpy(zero_copy_only=False)
    there = np.bincount(numbers[is_there], minlength=len(counts)).tolist()
    # Exact for sums below 2**53, which no lag reaches.
    sums = np.bincount(numbers, behind.fill_null(0).to_numpy().astype(np.float64), len(counts)).tolist()
    return {
        name: (int(sums[number]) if there[number] else None, counts[number])
        for number, name in enumerate(group.dictionary.to_pylist())
        if counts[number]
    }
