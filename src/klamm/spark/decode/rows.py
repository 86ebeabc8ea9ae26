"""One partition of a coordinator's log to rows of one table, fetch by fetch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from klamm.client.ranges import Fetch
from klamm.records.arrow import BinaryColumn, OffsetCommits, Region, Want
from klamm.records.core import decode_columns, decode_offset_commits
from klamm.spark.decode.outcomes import COMMITTED, NAMES, NONE, DecidedBatch, OutcomeFollower
from klamm.spark.decode.record_tables import EXTRACTORS, NO_VERSION, Choice, Found, Row
from klamm.spark.decode.tables import COMMITS, CONSUMER_OFFSETS, LAST_COMMITS, OTHERS
from klamm.spark.read.rows import MAX_ROWS, binary_array
from klamm.spark.read.splitting import OffsetRange

_TARGET_RECORDS: Final = 4 * MAX_ROWS
_TARGET_BYTES: Final = 8 << 20
_TXN_NAMES: Final = pa.array(NAMES, pa.string())


class TableRows(ABC):
    """Rows of one table out of one range of a log."""

    def __init__(self, schema: StructType, wanted: OffsetRange, *, check_crcs: bool) -> None:
        self.schema = to_arrow_schema(schema, timezone="UTC")
        self._wanted = wanted
        self._follower = OutcomeFollower(check_crcs=check_crcs)

    def rows(self, fetch: Fetch) -> Iterator[Any]:
        """The rows that a fetch makes known. DecodeError when a batch is damaged."""
        first = max(self._wanted.start_offset, fetch.start_offset)
        yield from self._grouped(self._follower.follow(fetch.data, first, self._wanted.next_offset))

    def rest(self) -> Iterator[Any]:
        """The rows of transactions that are open at the end of the range."""
        yield from self._grouped(self._follower.rest())

    @property
    def first_undecided(self) -> int | None:
        """The first offset of a transaction that is open so far; None when there is none."""
        return self._follower.first_undecided

    def _grouped(self, outcomes: Iterator[DecidedBatch]) -> Iterator[Any]:
        held: list[DecidedBatch] = []
        records = size = 0
        for outcome in outcomes:
            held.append(outcome)
            records += outcome.region.record_count
            size += len(outcome.region.data)
            if records >= _TARGET_RECORDS or size >= _TARGET_BYTES:
                yield from self._sliced(held)
                held, records, size = [], 0, 0
        if held:
            yield from self._sliced(held)

    def _sliced(self, held: list[DecidedBatch]) -> Iterator[Any]:
        whole = self._decoded(held)
        for start in range(0, whole.num_rows, MAX_ROWS):
            yield whole.slice(start, MAX_ROWS)

    @abstractmethod
    def _decoded(self, held: list[DecidedBatch]) -> Any:
        """The rows of these batches as one Arrow batch."""

    def _bounds(self) -> tuple[int, int]:
        return self._wanted.start_offset, self._wanted.next_offset

    def _constant(self, value: object, kind: Any, rows: int) -> Any:
        return pa.repeat(pa.scalar(value, kind), rows)


class OffsetCommitRows(TableRows):
    """Offset commits: decoded by the compiled core, column by column."""

    def _decoded(self, held: list[DecidedBatch]) -> Any:
        found = decode_offset_commits([outcome.region for outcome in held], *self._bounds())
        return self._batch(found, held)

    def _batch(self, found: OffsetCommits, held: list[DecidedBatch]) -> Any:
        arrays = [self._array(field, found, held) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _array(self, field: Any, found: OffsetCommits, held: list[DecidedBatch]) -> Any:
        rows = found.row_count
        match field.name:
            case "log_partition":
                return self._constant(self._wanted.partition.partition, field.type, rows)
            case "log_timestamp":
                return _instants(found.log_timestamp_ms, None, field.type)
            case "group_id" | "topic" | "metadata":
                column = {"group_id": found.group, "topic": found.topic, "metadata": found.metadata}
                return binary_array(pa.string(), rows, column[field.name])
            case "commit_ts":
                return _instants(found.commit_timestamp_ms, -1, field.type)
            case "expire_ts":
                return _instants(found.expire_timestamp_ms, -1, field.type)
            case "log_offset":
                return _numbers(found.log_offset, rows, field.type)
            case "partition":
                return _numbers(found.partition, rows, field.type)
            case "key_version":
                return _numbers(found.key_version, rows, field.type)
            case "committed_offset" | "leader_epoch" | "value_version":
                column_of = {
                    "committed_offset": found.committed_offset,
                    "leader_epoch": found.leader_epoch,
                    "value_version": found.value_version,
                }
                return _numbers(column_of[field.name], rows, field.type, found)
            case "is_tombstone":
                return pa.array(np.frombuffer(found.value_version, np.int32) < 0)
            case "producer_id" | "producer_epoch":
                numbers = [getattr(outcome, field.name) for outcome in held]
                if len(set(numbers)) == 1:  # as in most of a log, where nobody commits in transactions
                    return self._constant(numbers[0], field.type, rows)
                return pa.array(np.array(numbers, np.int64)[_region(found)]).cast(field.type)
            case "txn":
                outcomes = np.array([outcome.txn for outcome in held], np.int32)
                return _TXN_NAMES.take(pa.array(outcomes[_region(found)]))
        raise AssertionError(field.name)


class LastCommitRows(OffsetCommitRows):
    """The last commit that counts of each group, topic and partition in a range; known at its end.

    Spark spends ten times as long on a row as decoding it takes, so rows that only the maximum of their
    offsets would discard are discarded here.
    """

    def __init__(self, schema: StructType, wanted: OffsetRange, *, check_crcs: bool) -> None:
        super().__init__(schema, wanted, check_crcs=check_crcs)
        self._last = LastCommits()

    def _sliced(self, held: list[DecidedBatch]) -> Iterator[Any]:
        counting = [outcome for outcome in held if outcome.txn in (NONE, COMMITTED)]
        found = decode_offset_commits([outcome.region for outcome in counting], *self._bounds())
        rows = found.row_count
        self._last.add(
            CommitRows(
                self._batch(found, counting),
                binary_array(pa.string(), rows, found.group),
                binary_array(pa.string(), rows, found.topic),
                np.frombuffer(found.partition, np.int32),
                np.frombuffer(found.log_offset, np.int64),
            )
        )
        return iter(())

    def rest(self) -> Iterator[Any]:
        """All rows: a commit is the last one when no other can follow."""
        yield from super().rest()
        yield from self._last.rest()


class LastCommits:
    """Keeps the last of all commits that it is given, key by key."""

    def __init__(self) -> None:
        self._kept: list[CommitRows] = []
        self._kept_rows = self._compacted_rows = 0

    def add(self, commits: CommitRows) -> None:
        """Commits that count, in any order."""
        self._kept.append(commits.last())
        self._kept_rows += self._kept[-1].batch.num_rows
        if self._kept_rows > 2 * self._compacted_rows + _TARGET_RECORDS:
            self._compact()

    def rest(self) -> Iterator[Any]:
        """The rows that are left."""
        self._compact()
        for commits in self._kept:
            for start in range(0, commits.batch.num_rows, MAX_ROWS):
                yield commits.batch.slice(start, MAX_ROWS)
        self._kept = []

    def _compact(self) -> None:
        if self._kept:
            self._kept = [_joined(self._kept).last()]
            self._kept_rows = self._compacted_rows = self._kept[0].batch.num_rows


class CommitRows(NamedTuple):
    """Rows of commits, with their keys and places, whichever columns the rows have."""

    batch: Any
    group: Any
    topic: Any
    partition: Any
    log_offset: Any

    def last(self) -> CommitRows:
        """The rows with the highest log offset of their group, topic and partition, in log order."""
        rows = self.batch.num_rows
        if rows == 0:
            return self
        group, topic = self.group.dictionary_encode(), self.topic.dictionary_encode()
        names = group.indices.to_numpy().astype(np.int64) * len(topic.dictionary) + topic.indices.to_numpy()
        # Batches of a transaction come when it ends, after others with higher offsets.
        order = np.argsort(self.log_offset, kind="stable")
        table = pa.table({"name": names[order], "partition": self.partition[order], "row": np.arange(rows)})
        last = table.group_by(["name", "partition"], use_threads=False).aggregate([("row", "max")])
        chosen = order[np.sort(last.column("row_max").to_numpy())]
        picked = pa.array(chosen)
        return CommitRows(
            self.batch.take(picked),
            self.group.take(picked),
            self.topic.take(picked),
            self.partition[chosen],
            self.log_offset[chosen],
        )


def _joined(parts: Sequence[CommitRows]) -> CommitRows:
    parts = [part for part in parts if part.batch.num_rows] or parts[:1]
    (batch,) = pa.Table.from_batches([part.batch for part in parts]).combine_chunks().to_batches() or [
        parts[0].batch
    ]
    return CommitRows(
        batch,
        pa.concat_arrays([part.group for part in parts]),
        pa.concat_arrays([part.topic for part in parts]),
        np.concatenate([part.partition for part in parts]),
        np.concatenate([part.log_offset for part in parts]),
    )


class RecordRows(TableRows):
    """Every other table: records are few, and read one by one after the others are filtered out."""

    def __init__(
        self, schema: StructType, wanted: OffsetRange, *, check_crcs: bool, format_name: str, table: str
    ) -> None:
        super().__init__(schema, wanted, check_crcs=check_crcs)
        self._chosen, self._extract = EXTRACTORS[format_name, table]
        self._wants_broken_commits = format_name == CONSUMER_OFFSETS and table in ("undecoded", OTHERS)

    def _decoded(self, held: list[DecidedBatch]) -> Any:
        regions = [outcome.region for outcome in held]
        broken = np.empty(0, np.int64)
        if self._wants_broken_commits:
            commits = decode_offset_commits(regions, *self._bounds())
            broken = np.frombuffer(commits.broken, np.int64)
            if commits.row_count == sum(region.record_count for region in regions):
                return pa.RecordBatch.from_pylist([], self.schema)  # as most of the log: nothing but commits
        rows: list[Row] = []
        for place, record in picked_records(regions, *self._bounds(), self._chosen, broken):
            where = place_of(self._wanted, place)
            rows += [where | row for row in self._extract(record)]
        return batch_of(rows, self.schema)


class LogPlace(NamedTuple):
    """Where a record is in its partition, and its time in microseconds."""

    log_offset: int
    time_us: int


def place_of(wanted: OffsetRange, place: LogPlace) -> Row:
    """The columns that every table starts with."""
    return {
        "log_partition": wanted.partition.partition,
        "log_offset": place.log_offset,
        "log_timestamp": place.time_us,
    }


def batch_of(rows: Sequence[Row], schema: Any) -> Any:
    """Rows as an Arrow batch."""
    arrays = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def picked_records(
    regions: Sequence[Region], first_offset: int, until_offset: int, chosen: Choice, broken: Any
) -> Iterator[tuple[LogPlace, Found]]:
    """The records that are chosen by the versions of their keys, and those at the offsets in `broken`."""
    wants = Want.KEY | Want.VALUE | Want.OFFSET | Want.TIMESTAMP
    columns = decode_columns(regions, wants, first_offset, until_offset)
    assert columns.key is not None
    assert columns.value is not None
    assert columns.offset is not None
    assert columns.timestamp_ms is not None
    offset = np.frombuffer(columns.offset, np.int64)
    mask = chosen(key_versions(columns.key, columns.row_count), _is_null(columns.value, columns))
    if len(broken):
        mask |= np.isin(offset, broken)
    picked = np.flatnonzero(mask)
    rows = pa.array(picked)
    keys = binary_array(pa.binary(), columns.row_count, columns.key).take(rows).to_pylist()
    values = binary_array(pa.binary(), columns.row_count, columns.value).take(rows).to_pylist()
    offsets = offset[picked].tolist()
    times = (np.frombuffer(columns.timestamp_ms, np.int64)[picked] * 1000).tolist()
    for place, key, value in zip(map(LogPlace, offsets, times), keys, values, strict=True):
        yield place, Found(key, value)


def table_rows(
    schema: StructType, wanted: OffsetRange, *, check_crcs: bool, format_name: str, table: str
) -> TableRows:
    """What reads this table."""
    if table == COMMITS:
        return OffsetCommitRows(schema, wanted, check_crcs=check_crcs)
    if table == LAST_COMMITS:
        return LastCommitRows(schema, wanted, check_crcs=check_crcs)
    return RecordRows(schema, wanted, check_crcs=check_crcs, format_name=format_name, table=table)


def key_versions(keys: BinaryColumn, rows: int) -> Any:
    """The 16-bit number that each key begins with; NO_VERSION where there is none."""
    cuts = np.frombuffer(keys.offsets, np.int32, rows + 1)
    text = np.frombuffer(keys.values, np.uint8)
    has_version = (cuts[1:] - cuts[:-1]) >= 2
    found = np.full(rows, NO_VERSION, np.int32)
    starts = cuts[:-1][has_version]
    found[has_version] = (text[starts].astype(np.int16) << 8) | text[starts + 1]
    return found


def _is_null(column: BinaryColumn, columns: Any) -> Any:
    if column.validity is None:
        return np.zeros(columns.row_count, bool)
    bits = np.unpackbits(np.frombuffer(column.validity, np.uint8), bitorder="little")
    return bits[: columns.row_count] == 0


def _region(found: OffsetCommits) -> Any:
    return np.frombuffer(found.region, np.int32)


def _numbers(column: bytearray, rows: int, kind: Any, found: OffsetCommits | None = None) -> Any:
    """A column as it is; with `found`, tombstones have nulls."""
    if found is None or found.value_validity is None:
        return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(column)], 0)
    validity = pa.py_buffer(found.value_validity)
    return pa.Array.from_buffers(kind, rows, [validity, pa.py_buffer(column)], found.tombstone_count)


def _instants(column: bytearray, missing: int | None, kind: Any) -> Any:
    """Milliseconds as Spark's microseconds; `missing` stands for none."""
    times_ms = np.frombuffer(column, np.int64)
    mask = None if missing is None else times_ms == missing
    if mask is not None and mask.all():
        return pa.nulls(len(times_ms), kind)
    return pa.array(times_ms * 1000, mask=mask if mask is not None and mask.any() else None).cast(kind)
