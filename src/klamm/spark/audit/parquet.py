"""The tables of an audit as Parquet: each task reads its ranges once, and writes files itself.

Rows never pass through Spark's JVM, which spends ten times as long on a row as decoding and writing it takes.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from klamm.errors import KlammError
from klamm.spark.audit.one_pass import AuditTask, audit_rows
from klamm.spark.audit.schemas import COMMIT_HISTORY, SOURCES, TABLES, schema_of
from klamm.spark.decode.tables import COMMITS

# Rows of a table that one row group of a file has, at least; fewer in the last one.
GROUP_ROWS: Final = 1 << 18
COUNTS: Final = ".progress"  # a folder for the time of a pass
COUNTED_OFFSETS: Final = 10_000
WATCH_S: Final = 0.2
# Numbers that grow by little from row to row.
_GROWING: Final = ("log_offset",)
# Columns of the large tables that may be empty. For all others files need not say so row by row.
_MAY_BE_NULL: Final = {
    COMMITS: {"committed_offset", "leader_epoch", "metadata", "commit_ts", "expire_ts", "value_version"},
    COMMIT_HISTORY: {"prev_offset", "delta", "prev_commit_ts", "commit_ts", "gap_ms", "is_rewind"},
}
PlannedPass = tuple[AuditTask, Sequence[InputPartition]]


def write_tables(
    spark: SparkSession, passes: Iterable[PlannedPass], folder: Path, progress: Callable[[int], None]
) -> None:
    """Write all tables below a folder that all machines share; what is there already is removed."""
    for name in TABLES:
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir(parents=True)
    work = [(task, ranges) for task, planned in passes for ranges in planned]
    counts = folder / COUNTS
    counts.mkdir(exist_ok=True)
    try:
        if work:
            numbered = list(enumerate(work))
            rdd = spark.sparkContext.parallelize(numbered, len(numbered))
            with _watched(counts, progress):
                written = rdd.flatMap(partial(_write_task, str(folder))).collect()
            _check_seen(folder, written)
    finally:
        shutil.rmtree(counts, ignore_errors=True)
    for name in TABLES:
        if not any((folder / name).iterdir()):
            # A reader of Parquet needs a file to know the columns.
            schema = to_arrow_schema(schema_of(name), timezone="UTC")
            pq.write_table(schema.empty_table(), folder / name / "part-00000.parquet")
        (folder / name / "_SUCCESS").touch()


def _check_seen(folder: Path, written: Iterable[str]) -> None:
    for name in written:
        if not (folder / name).exists():
            raise KlammError(
                f"{folder / name} was written by a worker, and is not here: choose a folder that all "
                "machines share"
            )


@contextmanager
def _watched(counts: Path, progress: Callable[[int], None]) -> Iterator[None]:
    """Report what tasks have read, as long as they run."""
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(WATCH_S):
            progress(sum(path.stat().st_size for path in counts.iterdir()) * COUNTED_OFFSETS)

    watcher = threading.Thread(target=watch, name="audit-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()


class _Counter:
    """Counts the offsets of a task where the driver sees it: a byte in a file for so many of them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._left = 0

    def __call__(self, offsets: int) -> None:
        done, self._left = divmod(self._left + offsets, COUNTED_OFFSETS)
        if done:
            with self._path.open("ab") as file:
                file.write(bytes(done))


def _write_task(folder: str, numbered: tuple[int, tuple[AuditTask, InputPartition]]) -> Iterator[str]:
    """One task: as many files as it has tables with rows. Tried again, it replaces them."""
    number, (task, ranges) = numbered
    files = {name: _File(Path(folder), name, number) for name in TABLES if SOURCES[name] == task.source}
    counter = _Counter(Path(folder, COUNTS, str(number)))
    try:
        for name, batch in audit_rows(task, ranges, tick=counter):
            files[name].add(batch)
        for file in files.values():
            yield from file.finish()
    finally:
        for file in files.values():
            file.discard()


class _File:
    """A file that exists only once it is complete."""

    def __init__(self, folder: Path, name: str, number: int) -> None:
        self._name = f"{name}/part-{number:05}.parquet"
        self._path = folder / self._name
        self._unfinished = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        self._may_be_null = _MAY_BE_NULL.get(name, schema_of(name).fieldNames())
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
            table = pa.Table.from_batches(self._held).unify_dictionaries()  # or each batch has its own page
            schema = pa.schema([self._field(field) for field in table.schema])
            if self._writer is None:
                self._writer = self._opened(schema)
            self._writer.write_table(pa.Table.from_arrays(table.columns, schema=schema))
        self._held, self._held_rows = [], 0

    def _field(self, field: Any) -> Any:
        return field.with_nullable(field.name in self._may_be_null)

    def _opened(self, schema: Any) -> Any:
        self._unfinished.parent.mkdir(parents=True, exist_ok=True)
        growing = {name: "DELTA_BINARY_PACKED" for name in _GROWING if name in schema.names}
        return pq.ParquetWriter(
            self._unfinished,
            schema,
            use_dictionary=[name for name in schema.names if name not in growing],
            column_encoding=growing or None,
            # The others are not worth the time: where few values are, readers find them in the dictionary.
            write_statistics=[field.name for field in schema if _is_filtered(field)],
            store_schema=False,  # a column that is encoded here is a plain one to its readers
        )

    def finish(self) -> Iterator[str]:
        """Complete the file; its name, if there is one."""
        self._write()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            self._unfinished.replace(self._path)
            yield self._name

    def discard(self) -> None:
        """Remove what was not finished."""
        if self._writer is not None:
            self._writer.close()
            self._unfinished.unlink(missing_ok=True)


def _is_filtered(field: Any) -> bool:
    """Whether queries choose row groups by this column."""
    return bool(field.name == "group_id" or pa.types.is_timestamp(field.type))
