"""Commits of one partition of the log, each beside the one before it; and what is left of them at the end.

A log has the commits in order, and all commits of a group: whoever reads it has to remember the last one of
each key only. Keys are numbered, and everything but metadata is numbers here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

# Rows that are compared at a time, at least. Known keys take part: there are more rows when these are many.
HELD_ROWS: Final = 1 << 18
NO_TIME: Final = np.iinfo(np.int64).min  # in place of null
_TIME: Final = pa.timestamp("us", "UTC")


class CountedCommits(NamedTuple):
    """Commits that count, in the order in which their transactions ended."""

    log_offset: Any
    key: Any
    committed_offset: Any
    commit_us: Any
    metadata: Any  # Arrow's strings; the rest is numpy's

    def taken(self, rows: Any) -> CountedCommits:
        """The rows at these places."""
        return CountedCommits(
            self.log_offset[rows],
            self.key[rows],
            self.committed_offset[rows],
            self.commit_us[rows],
            self.metadata.take(pa.array(rows)),
        )


@dataclass(slots=True)
class CommitProgress:
    """How a group has committed."""

    commit_count: int = 0
    last_commit_us: int = NO_TIME
    last_progress_us: int = NO_TIME  # the last commit of another offset than the one before

    def add(self, count: int, last_commit_us: int, last_progress_us: int) -> None:
        self.commit_count += count
        self.last_commit_us = max(self.last_commit_us, last_commit_us)
        self.last_progress_us = max(self.last_progress_us, last_progress_us)


class KeyNumbers:
    """Groups, topics and partitions as one number each: that of group and topic, then the partition."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[str, str], int] = {}
        self._groups: dict[str, int] = {}
        self._topics: dict[str, int] = {}
        self._pair_groups: list[int] = []
        self._pair_topics: list[int] = []

    def numbered(self, group: Any, topic: Any, partition: Any) -> Any:
        """The keys of these rows; group and topic are encoded as dictionaries."""
        width = len(topic.dictionary)
        pairs = group.indices.to_numpy().astype(np.int64) * width + topic.indices.to_numpy()
        found = pa.array(pairs).dictionary_encode()
        groups, topics = group.dictionary.to_pylist(), topic.dictionary.to_pylist()
        numbers = [
            self._number(groups[pair // width], topics[pair % width]) for pair in found.dictionary.to_pylist()
        ]
        return np.array(numbers, np.int64)[found.indices.to_numpy()] << 32 | partition.astype(np.uint32)

    def _number(self, group: str, topic: str) -> int:
        number = self._pairs.setdefault((group, topic), len(self._pairs))
        if number == len(self._pair_groups):
            self._pair_groups.append(self._groups.setdefault(group, len(self._groups)))
            self._pair_topics.append(self._topics.setdefault(topic, len(self._topics)))
        return number

    def columns(self, keys: Any) -> tuple[Any, Any, Any]:
        """The groups, topics and partitions of keys."""
        pairs = keys >> 32
        return (
            _encoded(np.array(self._pair_groups, np.int32)[pairs], self._groups),
            _encoded(np.array(self._pair_topics, np.int32)[pairs], self._topics),
            pa.array(keys.astype(np.int32)),  # the lower half
        )

    def by_group(self, pairs: Any) -> Iterator[tuple[int, str]]:
        """The places of these pairs, with the names of their groups."""
        names = list(self._groups)
        for place, pair in enumerate(pairs.tolist()):
            yield place, names[self._pair_groups[pair]]


def _encoded(numbers: Any, names: dict[str, int]) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(numbers), pa.array(list(names), pa.string()))


class CommitHistory:
    """The history of one partition of the log. Rows come ordered by key, and by log offset within it."""

    def __init__(self) -> None:
        self._keys = KeyNumbers()
        self._held: list[CountedCommits] = []
        self._held_rows = 0
        self._enough_rows = HELD_ROWS
        nothing = np.empty(0, np.int64)
        self._last = CountedCommits(nothing, nothing, nothing, nothing, pa.array([], pa.string()))
        self._removed: list[tuple[Any, Any]] = []  # keys and log offsets of tombstones
        self.moves: dict[str, CommitProgress] = {}

    def add(self, rows: Any) -> None:
        """Rows of `offset_commits` that count, in the order in which their transactions ended."""
        if not rows.num_rows:
            return
        group, topic = rows.column("group_id"), rows.column("topic")
        key = self._keys.numbered(group, topic, rows.column("partition").to_numpy())
        log_offset = rows.column("log_offset").to_numpy()
        is_tombstone = rows.column("is_tombstone").to_numpy(zero_copy_only=False)
        if is_tombstone.any():
            self._removed.append((key[is_tombstone], log_offset[is_tombstone]))
            kept = np.flatnonzero(~is_tombstone)
            rows = rows.take(pa.array(kept))
            key, log_offset = key[kept], log_offset[kept]
        at = rows.column("commit_ts").cast(pa.int64())
        self._hold(
            CountedCommits(
                log_offset,
                key,
                rows.column("committed_offset").to_numpy(),
                at.fill_null(NO_TIME).to_numpy() if at.null_count else at.to_numpy(),
                rows.column("metadata"),
            )
        )

    def rows(self, first_undecided: int | None) -> Iterator[Any]:
        """What is known by now, when it is enough: a commit below the offset given has no other to come."""
        if self._held_rows >= self._enough_rows:
            yield from self._ready(first_undecided)
            # Not at every fetch: a transaction that stays open holds all rows behind it.
            self._enough_rows = max(HELD_ROWS, 2 * len(self._last.key), 2 * self._held_rows)

    def rest(self) -> Iterator[Any]:
        """All that is left, at the end of the log."""
        yield from self._ready(None)

    def latest(self) -> Any:
        """The last commit of each key that was not removed after it; at the end of the log."""
        last = self._last
        if self._removed:
            keys = np.concatenate([part[0] for part in self._removed])
            offsets = np.concatenate([part[1] for part in self._removed])
            order = np.lexsort((offsets, keys))
            keys, offsets = keys[order], offsets[order]
            # The last tombstone of a key is the one before the next key begins.
            place = np.searchsorted(keys, last.key, side="right") - 1
            is_removed = (place >= 0) & (keys[place] == last.key) & (offsets[place] > last.log_offset)
            last = last.taken(np.flatnonzero(~is_removed))
        columns = (*self._keys.columns(last.key), pa.array(last.committed_offset), _times(last.commit_us))
        return pa.RecordBatch.from_arrays(
            [*columns, last.metadata],
            names=["group_id", "topic", "partition", "committed_offset", "commit_ts", "metadata"],
        )

    def _hold(self, rows: CountedCommits) -> None:
        if len(rows.key):
            self._held.append(rows)
            self._held_rows += len(rows.key)

    def _ready(self, first_undecided: int | None) -> Iterator[Any]:
        if not self._held:
            return
        rows = _joined(self._held)
        self._held, self._held_rows = [], 0
        if first_undecided is not None:
            is_known = rows.log_offset < first_undecided
            self._hold(rows.taken(np.flatnonzero(~is_known)))
            rows = rows.taken(np.flatnonzero(is_known))
        if np.any(rows.log_offset[1:] < rows.log_offset[:-1]):  # a transaction ended after later commits
            rows = rows.taken(np.argsort(rows.log_offset, kind="stable"))
        if len(rows.key):
            yield self._compared(rows)

    def _compared(self, rows: CountedCommits) -> Any:
        known = len(self._last.key)
        both = _joined([self._last, rows])
        order = np.argsort(both.key, kind="stable")
        keys = both.key[order]
        is_first = np.empty(len(keys), bool)
        is_first[0] = True
        np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
        is_last = np.append(is_first[1:], True)
        offset, at = both.committed_offset[order], both.commit_us[order]
        # Of each row that is new: itself, and the row before it if that has the same key.
        places = np.flatnonzero(order >= known)
        before = np.maximum(places - 1, 0)
        is_new_key = is_first[places]
        batch = self._batch(keys[places], offset[places], at[places], offset[before], at[before], is_new_key)
        self._last = both.taken(order[is_last])
        return batch

    def _batch(self, keys: Any, offset: Any, at: Any, prev_offset: Any, prev_at: Any, is_new_key: Any) -> Any:
        delta = offset - prev_offset
        self._count(keys >> 32, at, is_new_key | (delta != 0))
        group, topic, partition = self._keys.columns(keys)
        has_no_gap = is_new_key | (at == NO_TIME) | (prev_at == NO_TIME)
        # Without a gap the difference means nothing: it must not overflow.
        gap_us = np.where(has_no_gap, 0, at) - np.where(has_no_gap, 0, prev_at)
        made = {
            "group_id": group,
            "topic": topic,
            "partition": partition,
            "prev_offset": pa.array(prev_offset, mask=is_new_key),
            "committed_offset": pa.array(offset),
            "delta": pa.array(delta, mask=is_new_key),
            "prev_commit_ts": _times(prev_at, is_new_key),
            "commit_ts": _times(at),
            "gap_ms": pa.array(gap_us // 1000, mask=has_no_gap),
            "is_rewind": pa.array(delta < 0, mask=is_new_key),
        }
        return pa.RecordBatch.from_arrays(list(made.values()), names=list(made))

    def _count(self, pairs: Any, at: Any, is_progress: Any) -> None:
        """Add to the moves of each group; pairs are ordered."""
        starts = np.flatnonzero(np.append(True, pairs[1:] != pairs[:-1]))
        counts = np.diff(np.append(starts, len(pairs))).tolist()
        last = np.maximum.reduceat(at, starts).tolist()
        progress = np.maximum.reduceat(np.where(is_progress, at, NO_TIME), starts).tolist()
        for place, group in self._keys.by_group(pairs[starts]):
            self.moves.setdefault(group, CommitProgress()).add(counts[place], last[place], progress[place])


def _times(at_us: Any, mask: Any = None) -> Any:
    is_missing = at_us == NO_TIME
    if mask is not None:
        is_missing |= mask
    found = pa.array(at_us, mask=is_missing) if is_missing.any() else pa.array(at_us)
    return found.view(_TIME)


def _joined(parts: list[CountedCommits]) -> CountedCommits:
    if len(parts) == 1:
        return parts[0]
    return CountedCommits(
        np.concatenate([part.log_offset for part in parts]),
        np.concatenate([part.key for part in parts]),
        np.concatenate([part.committed_offset for part in parts]),
        np.concatenate([part.commit_us for part in parts]),
        pa.concat_arrays([part.metadata for part in parts]),
    )
