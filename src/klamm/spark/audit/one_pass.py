"""Every table of a log in one pass over it: what one task makes of its ranges.

A group's records are all in one partition of `__consumer_offsets`, those of a transactional id in one of
`__transaction_state`. So tasks need nothing of each other, and derived tables need no query of Spark's, which
would take longer to plan than these rows to make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from klamm.client.admin.offsets import LATEST
from klamm.client.ranges import Fetch
from klamm.groups.causes import EXPLAINING, RecordedCauses
from klamm.protocol.types import TopicPartition
from klamm.records.arrow import Want
from klamm.records.columns import iter_columns
from klamm.records.core import decode_offset_commits
from klamm.spark.audit.causes import event_row, explained
from klamm.spark.audit.history import CommitHistory
from klamm.spark.audit.schemas import COMMIT_HISTORY, EVENTS, LATEST_OFFSETS, TABLES, schema_of
from klamm.spark.audit.spans import TransactionSpans
from klamm.spark.audit.standing import KnownEnds, group_rows, lag_of
from klamm.spark.audit.steps import GroupSteps
from klamm.spark.decode.outcomes import COMMITTED, NAMES, NONE, DecidedBatch
from klamm.spark.decode.record_tables import EXTRACTORS, NamedRow, Row, no_commits, offset_rows
from klamm.spark.decode.rows import OffsetCommitRows, TableRows, batch_of, picked_records, place_of
from klamm.spark.decode.tables import COMMITS, CONSUMER_OFFSETS, TRANSACTION_STATE, table_schema
from klamm.spark.options.options import SourceOptions
from klamm.spark.read.reading import RangePartition, RangesPartition, RowMaker, Rows, read_with
from klamm.spark.read.rows import binary_array
from klamm.spark.read.splitting import OffsetRange
from klamm.spark.setup.connections import admin

NamedBatch = tuple[str, Any]
# Rows of a table that are collected before they become a batch.
BATCH_ROWS: Final = 4_096
# Rebalances that wait for their causes; above this limit the events are read in between.
MAX_UNEXPLAINED: Final = 50_000
_NAMES: Final = pa.array(NAMES, pa.string())
_ENCODED: Final = ("group_id", "topic", "txn")  # columns of commits with few values


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTask:
    """What every task of a pass knows; pickled into it."""

    source: str  # what is read: the format of a coordinator's log, or the events
    options: SourceOptions
    events: SourceOptions
    event_ranges: tuple[RangePartition, ...]  # empty where there are no events
    as_of_ms: int
    retention_ms: int
    stuck_ms: int


def audit_rows(
    task: AuditTask, ranges: InputPartition, *, tick: Callable[[int], None] = lambda _: None
) -> Iterator[NamedBatch]:
    """All rows of a task's ranges, each batch with the name of its table.

    `tick` is called for each fetch with the number of offsets that it covers.
    """
    if task.source == EVENTS:
        rows = read_with(task.events, _ticking(_EventRows, tick), ranges)
        yield from _gathered((EVENTS, row) for row in rows)
    elif task.source == TRANSACTION_STATE:
        make = _ticking(partial(_TransactionPass, task.as_of_ms), tick)
        yield from read_with(task.options, make, ranges)
    else:
        passed = _Passed(task)
        yield from read_with(task.options, _ticking(passed.over, tick), ranges)
        yield from passed.rest()


def _ticking(make: RowMaker, tick: Callable[[int], None]) -> RowMaker:
    return lambda wanted, check_crcs: _Ticking(make(wanted, check_crcs), tick)


class _Ticking:
    """Rows whose maker is watched."""

    def __init__(self, made: Rows, tick: Callable[[int], None]) -> None:
        self._made = made
        self._tick = tick

    def rows(self, fetch: Fetch) -> Iterator[Any]:
        yield from self._made.rows(fetch)
        self._tick(fetch.next_offset - fetch.start_offset)

    def rest(self) -> Iterator[Any]:
        return self._made.rest()


class _Collector:
    """Turns rows into batches of their tables, some at a time."""

    def __init__(self) -> None:
        self._schemas = {name: to_arrow_schema(schema_of(name), timezone="UTC") for name in TABLES}
        self._held: dict[str, list[Row]] = {}

    def add(self, rows: Iterator[NamedRow]) -> Iterator[NamedBatch]:
        for name, row in rows:
            held = self._held.setdefault(name, [])
            held.append(row)
            if len(held) >= BATCH_ROWS:
                yield name, batch_of(held, self._schemas[name])
                held.clear()

    def rest(self) -> Iterator[NamedBatch]:
        for name, held in self._held.items():
            if held:
                yield name, batch_of(held, self._schemas[name])
        self._held = {}


def _gathered(rows: Iterator[NamedRow]) -> Iterator[NamedBatch]:
    collector = _Collector()
    yield from collector.add(rows)
    yield from collector.rest()


class _Passed:
    """What a task has seen of `__consumer_offsets`, over all its ranges."""

    def __init__(self, task: AuditTask) -> None:
        self._task = task
        self.collector = _Collector()
        self.unexplained: list[Row] = []
        self._ends = KnownEnds(self._end_offsets)

    def over(self, wanted: OffsetRange, check_crcs: bool) -> Rows:
        return _OffsetPass(self, wanted, check_crcs)

    def explained(self) -> Iterator[NamedRow]:
        """The rebalances seen so far, with their causes."""
        rebalances, self.unexplained = self.unexplained, []
        if not rebalances:
            return
        groups = {row["group_id"] for row in rebalances}
        recorded = RecordedCauses(row for row in self._events() if row["group_id"] in groups)
        for row in rebalances:
            yield "rebalances", explained(row, recorded)

    def _events(self) -> Iterator[Row]:
        if self._task.event_ranges:
            rows = read_with(self._task.events, _EventRows, RangesPartition(self._task.event_ranges))
            yield from (row for row in rows if row["type"] in EXPLAINING)

    def standing(self, history: CommitHistory, steps: GroupSteps) -> Iterator[NamedBatch]:
        """Where the groups of one range stand at its end."""
        task = self._task
        latest = history.latest()
        lag = lag_of(latest, self._ends, task.as_of_ms)
        rows = group_rows(
            steps.standings,
            lag,
            history.moves,
            as_of_ms=task.as_of_ms,
            retention_ms=task.retention_ms,
            stuck_ms=task.stuck_ms,
        )
        if latest.num_rows:
            yield LATEST_OFFSETS, latest
        if lag.num_rows:
            yield "lag", lag
        yield from self.collector.add(("groups", row) for row in rows)

    def _end_offsets(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        wanted = dict.fromkeys(partitions, LATEST)
        found = admin(self._task.options.client).list_offsets(wanted, raise_errors=False)
        return {key: item.offset for key, item in found.successes.items()}

    def rest(self) -> Iterator[NamedBatch]:
        yield from self.collector.add(self.explained())
        yield from self.collector.rest()


class _OffsetPass(OffsetCommitRows):
    """One range of `__consumer_offsets`: each fetch is decoded once."""

    def __init__(self, passed: _Passed, wanted: OffsetRange, check_crcs: bool) -> None:
        super().__init__(table_schema(CONSUMER_OFFSETS, COMMITS), wanted, check_crcs=check_crcs)
        self._passed = passed
        self._history = CommitHistory()
        self._steps = GroupSteps(wanted.partition.partition)

    def rows(self, fetch: Fetch) -> Iterator[NamedBatch]:
        yield from super().rows(fetch)
        for batch in self._history.rows(self.first_undecided):
            yield COMMIT_HISTORY, batch

    def rest(self) -> Iterator[NamedBatch]:
        yield from super().rest()
        for batch in self._history.rest():
            yield COMMIT_HISTORY, batch
        yield from self._passed.standing(self._history, self._steps)

    def _sliced(self, held: list[DecidedBatch]) -> Iterator[NamedBatch]:
        regions = [outcome.region for outcome in held]
        found = decode_offset_commits(regions, *self._bounds())
        if found.row_count:
            yield from self._commits(self._batch(found, held), held)
        if found.row_count != sum(region.record_count for region in regions):
            broken = np.frombuffer(found.broken, np.int64)
            for place, record in picked_records(regions, *self._bounds(), no_commits, broken):
                rows = offset_rows(record)
                where = place_of(self._wanted, place)
                yield from self._passed.collector.add((name, where | row) for name, row in rows)
                yield from self._passed.collector.add(self._stepped(self._steps.add(place, rows)))

    def _commits(self, batch: Any, held: list[DecidedBatch]) -> Iterator[NamedBatch]:
        yield COMMITS, batch
        counting = batch
        if any(outcome.txn not in (NONE, COMMITTED) for outcome in held):
            is_counting = np.isin(batch.column("txn").indices.to_numpy(), (NONE, COMMITTED))
            counting = batch.take(pa.array(np.flatnonzero(is_counting)))
        self._history.add(counting)
        is_tombstone = batch.column("is_tombstone")
        if pc.any(is_tombstone).as_py():
            yield "tombstones", _tombstones(batch.filter(is_tombstone))

    def _stepped(self, rows: Iterator[NamedRow]) -> Iterator[NamedRow]:
        for name, row in rows:
            if name != "rebalances":
                yield name, row
                continue
            self._passed.unexplained.append(row)
            if len(self._passed.unexplained) >= MAX_UNEXPLAINED:
                yield from self._passed.explained()

    def _batch(self, found: Any, held: list[DecidedBatch]) -> Any:
        arrays = [self._array(field, found, held) for field in self.schema]
        names = self.schema.names
        for name in _ENCODED:
            at = names.index(name)
            if not pa.types.is_dictionary(arrays[at].type):
                arrays[at] = arrays[at].dictionary_encode()
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def _array(self, field: Any, found: Any, held: list[DecidedBatch]) -> Any:
        if field.name != "txn":
            return super()._array(field, found, held)
        outcomes = np.array([outcome.txn for outcome in held], np.int32)
        numbers = outcomes[np.frombuffer(found.region, np.int32)]
        return pa.DictionaryArray.from_arrays(pa.array(numbers), _NAMES)


def _tombstones(removed: Any) -> Any:
    schema = to_arrow_schema(schema_of("tombstones"), timezone="UTC")
    made = {
        "record_type": pa.repeat("offset_commit", removed.num_rows),
        "member_id": pa.nulls(removed.num_rows, pa.string()),
    }
    columns = [
        made[field.name] if field.name in made else removed.column(field.name).cast(field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class _TransactionPass(TableRows):
    """One range of `__transaction_state`: records are read one by one, as few as they are."""

    def __init__(self, as_of_ms: int, wanted: OffsetRange, check_crcs: bool) -> None:
        super().__init__(schema_of("transactions"), wanted, check_crcs=check_crcs)
        self._as_of_ms = as_of_ms
        self._collector = _Collector()
        self._spans = TransactionSpans()

    def rest(self) -> Iterator[NamedBatch]:
        yield from super().rest()
        spans = self._spans.rows(self._as_of_ms)
        yield from self._collector.add(("transaction_spans", row) for row in spans)
        yield from self._collector.rest()

    def _sliced(self, held: list[DecidedBatch]) -> Iterator[NamedBatch]:
        regions = [outcome.region for outcome in held]
        for place, record in picked_records(regions, *self._bounds(), _all, np.empty(0, np.int64)):
            where = place_of(self._wanted, place)
            for name, extract in _TRANSACTION_TABLES.items():
                for row in extract(record):
                    if name == "transactions":
                        self._spans.add(row)
                    yield from self._collector.add(iter([(name, where | row)]))

    def _decoded(self, held: list[DecidedBatch]) -> Any:
        raise AssertionError("rows are made one by one")


def _all(keys: Any, _is_null: Any) -> Any:
    return np.ones(len(keys), bool)


_TRANSACTION_TABLES: Final[Mapping[str, Callable[[Any], Iterator[Row]]]] = {
    "transactions": EXTRACTORS[TRANSACTION_STATE, "transactions"][1],
    "undecoded_transactions": EXTRACTORS[TRANSACTION_STATE, "undecoded"][1],
}


class _EventRows:
    """Records of the topic of events, by their JSON."""

    def __init__(self, wanted: OffsetRange, check_crcs: bool) -> None:
        schema = schema_of(EVENTS)
        self._columns = schema.fieldNames()
        self._numbers = frozenset(
            field.name for field in schema.fields if field.dataType.typeName() in ("integer", "long")
        )
        self._wanted = wanted
        self._check_crcs = check_crcs

    def rows(self, fetch: Fetch) -> Iterator[Row]:
        for columns in iter_columns(
            fetch.data,
            wanted=Want.VALUE,
            first_offset=max(self._wanted.start_offset, fetch.start_offset),
            until_offset=self._wanted.next_offset,
            check_crcs=self._check_crcs,
        ):
            assert columns.value is not None
            for value in binary_array(pa.binary(), columns.row_count, columns.value).to_pylist():
                yield event_row(value, self._columns, self._numbers)

    def rest(self) -> Iterator[Row]:
        """Nothing: an event is a row as soon as it is fetched."""
        return iter(())
