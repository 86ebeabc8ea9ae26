"""Commit history in one pass over a log: each commit beside the one before it, as `queries` has it in SQL.

Spark needs a shuffle and a sort of all commits for this. A log has them in order already, and all commits of
a group are in one partition of it: the task that decodes them only has to remember the last one of each key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from klamm.spark.decode.tables import COMMITS, CONSUMER_OFFSETS, table_schema

COMMIT_HISTORY: Final = "commit_history"
# Rows that are compared at a time, at least. Known keys take part: there are more rows when these are many.
HELD_ROWS: Final = 1 << 18
_USED: Final = ("log_offset", "group_id", "topic", "partition", "committed_offset", "commit_ts")
_COMMITS: Final = table_schema(CONSUMER_OFFSETS, COMMITS)
HISTORY_SCHEMA: Final = StructType(
    [
        *(_COMMITS[name] for name in ("group_id", "topic", "partition")),
        StructField("prev_offset", LongType()),
        _COMMITS["committed_offset"],
        StructField("delta", LongType()),
        StructField("prev_commit_ts", _COMMITS["commit_ts"].dataType),
        _COMMITS["commit_ts"],
        StructField("gap_ms", LongType()),
        StructField("is_rewind", BooleanType()),
    ]
)


class CommitHistory:
    """The history of one partition of a log. Rows come ordered by key, and by log offset within it."""

    def __init__(self) -> None:
        self._schema = to_arrow_schema(HISTORY_SCHEMA, timezone="UTC")
        self._held: list[Any] = []
        self._held_rows = 0
        self._enough_rows = HELD_ROWS
        self._numbers: dict[tuple[str, str], int] = {}  # of group and topic
        # The last commit of each key, so far.
        self._last_keys = np.empty(0, np.int64)
        self._last = pa.table({name: pa.array([], self._schema.field(name).type) for name in _USED[4:]})

    def add(self, commits: Any) -> None:
        """Rows of `offset_commits` that count, in the order in which their transactions ended."""
        used, is_tombstone = commits.select(_USED), commits.column("is_tombstone")
        if pc.any(is_tombstone).as_py():
            used = used.filter(pc.invert(is_tombstone))
        self._hold(pa.Table.from_batches([used]))

    def rows(self, first_undecided: int | None) -> Iterator[Any]:
        """What is known by now, when it is enough: a commit below the offset given has no other to come."""
        if self._held_rows >= self._enough_rows:
            yield from self._ready(first_undecided)
            # Not at every fetch: a transaction that stays open holds all rows behind it.
            self._enough_rows = max(HELD_ROWS, 2 * len(self._last_keys), 2 * self._held_rows)

    def rest(self) -> Iterator[Any]:
        """All that is left, at the end of the log."""
        yield from self._ready(None)

    def _hold(self, rows: Any) -> None:
        if rows.num_rows:
            self._held.append(rows)
            self._held_rows += rows.num_rows

    def _ready(self, first_undecided: int | None) -> Iterator[Any]:
        if not self._held:
            return
        rows = pa.concat_tables(self._held).combine_chunks()
        self._held, self._held_rows = [], 0
        if first_undecided is not None:
            is_known = pc.less(rows.column("log_offset"), first_undecided)
            self._hold(rows.filter(pc.invert(is_known)))
            rows = rows.filter(is_known)
        offsets = rows.column("log_offset").to_numpy()
        if np.any(offsets[1:] < offsets[:-1]):  # a transaction ended after later commits
            rows = rows.take(pa.array(np.argsort(offsets, kind="stable")))
        if rows.num_rows:
            yield from self._compared(rows).to_batches()

    def _compared(self, rows: Any) -> Any:
        known = len(self._last_keys)
        keys = np.concatenate([self._last_keys, self._keys(rows)])
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        is_first = np.empty(len(keys), bool)
        is_first[0] = True
        np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
        before = np.empty_like(order)
        before[1:] = order[:-1]
        is_new = order >= known
        places = order[is_new]
        previous = pa.array(before[is_new], mask=is_first[is_new])

        values = pa.concat_tables([self._last, rows.select(self._last.column_names)]).combine_chunks()
        is_last = np.append(is_first[1:], True)
        self._last_keys = ordered[is_last]
        self._last = values.take(pa.array(order[is_last]))
        return self._history(rows.take(pa.array(places - known)), values.take(previous))

    def _keys(self, rows: Any) -> Any:
        """A number for each row that is the same for the same group, topic and partition."""
        group = rows.column("group_id").combine_chunks().dictionary_encode()
        topic = rows.column("topic").combine_chunks().dictionary_encode()
        width = len(topic.dictionary)
        pairs = group.indices.to_numpy().astype(np.int64) * width + topic.indices.to_numpy()
        found = pa.array(pairs).dictionary_encode()
        groups, topics = group.dictionary.to_pylist(), topic.dictionary.to_pylist()
        numbers = np.array(
            [
                self._numbers.setdefault((groups[pair // width], topics[pair % width]), len(self._numbers))
                for pair in found.dictionary.to_pylist()
            ],
            np.int64,
        )
        partition = rows.column("partition").to_numpy().astype(np.uint32)
        return numbers[found.indices.to_numpy()] << 32 | partition

    def _history(self, rows: Any, previous: Any) -> Any:
        offset, at = rows.column("committed_offset"), rows.column("commit_ts")
        prev_offset, prev_at = previous.column("committed_offset"), previous.column("commit_ts")
        gap_us = pc.subtract(at.cast(pa.int64()), prev_at.cast(pa.int64()))
        made = {
            "prev_offset": prev_offset,
            "delta": pc.subtract(offset, prev_offset),
            "prev_commit_ts": prev_at,
            "gap_ms": pc.divide(gap_us, 1000),
            "is_rewind": pc.less(offset, prev_offset),
        }
        columns = [made[name] if name in made else rows.column(name) for name in self._schema.names]
        return pa.table(columns, schema=self._schema)
