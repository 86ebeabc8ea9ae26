"""Decoded tables as Parquet in one pass over a log: each task reads its ranges once, and writes files itself.

Rows never pass through Spark's JVM, which spends ten times as long on a row as decoding and writing it takes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from klamm.client.ranges import Fetch
from klamm.spark.audit.history import COMMIT_HISTORY, HISTORY_SCHEMA, CommitHistory
from klamm.spark.decode.outcomes import COMMITTED, NAMES, NONE
from klamm.spark.decode.rows import Commits, LastCommits, table_rows
from klamm.spark.decode.tables import (
    COMMITS,
    CONSUMER_OFFSETS,
    OTHER_TABLES,
    OTHERS,
    table_schema,
)
from klamm.spark.options.options import SourceOptions, source_options
from klamm.spark.read.batch_reader import BatchReader
from klamm.spark.read.reading import Rows, read_with
from klamm.spark.read.splitting import OffsetRange

LATEST_OFFSETS: Final = "latest_offsets"
LATEST_COLUMNS: Final = ("group_id", "topic", "partition", "committed_offset", "commit_ts", "metadata")
# Rows of a table that one row group of a file has, at least; fewer in the last one.
GROUP_ROWS: Final = 1 << 18
COUNTING: Final = pa.array([NAMES[NONE], NAMES[COMMITTED]])
PLACE: Final = ("log_partition", "log_offset", "log_timestamp")


def schemas(format_name: str) -> dict[str, StructType]:
    """The tables that one pass over a log gives."""
    if format_name != CONSUMER_OFFSETS:
        return {name: table_schema(format_name, name) for name in ("transactions", "undecoded")}
    commits = table_schema(format_name, COMMITS)
    return {
        COMMITS: commits,
        **{name: table_schema(format_name, name) for name in OTHER_TABLES},
        LATEST_OFFSETS: StructType([commits[name] for name in LATEST_COLUMNS]),
        COMMIT_HISTORY: HISTORY_SCHEMA,
    }


def write_tables(spark: SparkSession, options: Mapping[str, str], folders: Mapping[str, Path]) -> None:
    """Write the tables of a log, each into its folder; what is there already is removed."""
    given = source_options(dict(options), is_streaming=False)
    assert given.decode is not None
    format_name = given.decode.format_name
    for folder in folders.values():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    reader = BatchReader(given, table_schema(format_name, given.decode.table))
    tasks = list(enumerate(reader.partitions()))
    if tasks:
        work = partial(_write_task, given, {name: str(folder) for name, folder in folders.items()})
        spark.sparkContext.parallelize(tasks, len(tasks)).foreach(work)
    for name, folder in folders.items():
        if not any(folder.iterdir()):
            # A reader of Parquet needs a file to know the columns.
            schema = to_arrow_schema(schemas(format_name)[name], timezone="UTC")
            pq.write_table(schema.empty_table(), folder / "part-00000.parquet")
        (folder / "_SUCCESS").touch()


def _write_task(
    options: SourceOptions, folders: Mapping[str, str], numbered: tuple[int, InputPartition]
) -> None:
    """One task: as many files as it has tables with rows. Tried again, it replaces them."""
    number, task = numbered
    assert options.decode is not None
    format_name = options.decode.format_name
    files = {
        name: _File(Path(folder), number, schema)
        for name, schema in schemas(format_name).items()
        if (folder := folders.get(name)) is not None
    }
    try:
        for name, batch in read_with(options, partial(_tables, format_name), task):
            if name in files:
                files[name].add(batch)
        for file in files.values():
            file.finish()
    finally:
        for file in files.values():
            file.discard()


class _File:
    """A file that exists only once it is complete."""

    def __init__(self, folder: Path, number: int, schema: StructType) -> None:
        self._path = folder / f"part-{number:05}.parquet"
        self._unfinished = folder / f".{self._path.name}.{os.getpid()}"
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._held: list[Any] = []
        self._held_rows = 0
        self._writer: Any = None

    def add(self, batch: Any) -> None:
        self._held.append(batch)
        self._held_rows += batch.num_rows
        if self._held_rows >= GROUP_ROWS:
            self._write()

    def _write(self) -> None:
        if self._held_rows:
            if self._writer is None:
                self._unfinished.parent.mkdir(parents=True, exist_ok=True)
                self._writer = pq.ParquetWriter(self._unfinished, self._schema)
            self._writer.write_table(pa.Table.from_batches(self._held, self._schema))
        self._held, self._held_rows = [], 0

    def finish(self) -> None:
        self._write()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            self._unfinished.replace(self._path)

    def discard(self) -> None:
        """Remove what was not finished."""
        if self._writer is not None:
            self._writer.close()
            self._unfinished.unlink(missing_ok=True)


def _tables(format_name: str, wanted: OffsetRange, check_crcs: bool) -> Rows:
    return (
        _OffsetTables(wanted, check_crcs)
        if format_name == CONSUMER_OFFSETS
        else _Named(format_name, wanted, check_crcs, ("transactions", "undecoded"))
    )


class _Named:
    """Rows of several tables of one range, each batch with the name of its table."""

    def __init__(
        self, format_name: str, wanted: OffsetRange, check_crcs: bool, tables: tuple[str, ...]
    ) -> None:
        # Checksums are checked by the first one, which sees each fetch whole before the others do.
        self._makers = {
            name: table_rows(
                table_schema(format_name, name),
                wanted,
                check_crcs=check_crcs and name == tables[0],
                format_name=format_name,
                table=name,
            )
            for name in tables
        }

    def rows(self, fetch: Fetch) -> Iterator[tuple[str, Any]]:
        for name, maker in self._makers.items():
            for batch in maker.rows(fetch):
                yield name, batch

    def rest(self) -> Iterator[tuple[str, Any]]:
        for name, maker in self._makers.items():
            for batch in maker.rest():
                yield name, batch


class _OffsetTables(_Named):
    """All tables of `__consumer_offsets`, from two decodes of each fetch."""

    def __init__(self, wanted: OffsetRange, check_crcs: bool) -> None:
        super().__init__(CONSUMER_OFFSETS, wanted, check_crcs, (COMMITS, OTHERS))
        self._tombstones = to_arrow_schema(table_schema(CONSUMER_OFFSETS, "tombstones"), timezone="UTC")
        self._history = CommitHistory()
        self._last = LastCommits()

    def rows(self, fetch: Fetch) -> Iterator[tuple[str, Any]]:
        for name, batch in super().rows(fetch):
            yield from self._derived(name, batch)
        for batch in self._history.rows(self._makers[COMMITS].first_undecided):
            yield COMMIT_HISTORY, batch

    def rest(self) -> Iterator[tuple[str, Any]]:
        for name, batch in super().rest():
            yield from self._derived(name, batch)
        for batch in self._history.rest():
            yield COMMIT_HISTORY, batch
        for batch in self._last.rest():
            there = batch.filter(pc.invert(batch.column("is_tombstone")))
            yield LATEST_OFFSETS, there.select(LATEST_COLUMNS)

    def _derived(self, name: str, batch: Any) -> Iterator[tuple[str, Any]]:
        if name == OTHERS:
            for table in OTHER_TABLES:
                yield from _exploded(batch, table)
            return
        yield name, batch
        counts = pc.is_in(batch.column("txn"), COUNTING)
        counting = batch if pc.all(counts).as_py() else batch.filter(counts)
        self._history.add(counting)
        self._last.add(_as_commits(counting))
        removed = batch.filter(batch.column("is_tombstone"))
        if removed.num_rows:
            yield "tombstones", self._commit_tombstones(removed)

    def _commit_tombstones(self, removed: Any) -> Any:
        made = {
            "record_type": pa.repeat("offset_commit", removed.num_rows),
            "member_id": pa.nulls(removed.num_rows, pa.string()),
        }
        columns = [made[name] if name in made else removed.column(name) for name in self._tombstones.names]
        return pa.RecordBatch.from_arrays(columns, schema=self._tombstones)


def _as_commits(rows: Any) -> Commits:
    return Commits(
        rows.select((*LATEST_COLUMNS, "is_tombstone")),
        rows.column("group_id"),
        rows.column("topic"),
        rows.column("partition").to_numpy(),
        rows.column("log_offset").to_numpy(),
    )


def _exploded(batch: Any, table: str) -> Iterator[tuple[str, Any]]:
    """The rows of one of the tables that `other_records` has as arrays."""
    arrays = batch.column(table)
    structs = pc.list_flatten(arrays)
    if not len(structs):
        return
    parents = pc.list_parent_indices(arrays)
    columns = [batch.column(name).take(parents) for name in PLACE] + structs.flatten()
    names = [*PLACE, *(field.name for field in structs.type)]
    yield table, pa.RecordBatch.from_arrays(columns, names=names)
