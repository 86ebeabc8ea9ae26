"""A data source that writes down what Spark does with it: every call, in which process, with what.

Nothing of klamm is in it: the facts that klamm's source and sink rest on are asked of Spark alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    Filter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

Event = dict[str, Any]


class Notebook:
    """A file that many processes append to, one line per event, in the order it happened."""

    def __init__(self, path: str) -> None:
        self.path = path

    def note(self, what: str, **details: Any) -> None:
        line = json.dumps({"what": what, "pid": os.getpid(), **details}) + "\n"
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)


def read_notes(path: Path) -> list[Event]:
    """Everything noted so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def properties() -> dict[str, str | None]:
    """What Spark tells a task about its query."""
    context = TaskContext.get()
    assert context is not None
    return {
        "batch": context.getLocalProperty("streaming.sql.batchId"),
        "query": context.getLocalProperty("sql.streaming.queryId"),
        "attempt": str(context.attemptNumber()),
        "partition": str(context.partitionId()),
    }


class Message(WriterCommitMessage):
    """A task's report."""

    def __init__(self, task: str | None) -> None:
        self.task = task


class ProbeSource(DataSource):
    """Options: `notes` (the file), `until` (the last offset), `fail` (where to break)."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.made_here = True
        if "notes" in options:
            Notebook(options["notes"]).note("made", options=dict(options))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.made_here = False

    @classmethod
    def name(cls) -> str:
        return "probe"

    def schema(self) -> str:
        return "id long"

    def reader(self, schema: StructType) -> DataSourceReader:
        return PushingReader() if self.options.get("pushes") == "true" else OddReader(self.options["yields"])

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return ProbeReader(dict(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802 - Spark's name
        book = Notebook(self.options["notes"])
        book.note("sink", is_new=self.made_here, options=dict(self.options))
        return ProbeWriter(dict(self.options))


class ProbeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets `{"n": 5}`: rows 0, 1, 2, ... in micro-batches of two."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options
        self.book = Notebook(options["notes"])
        self.calls = 0

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self.book.note("prepare")

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        return ReadAllAvailable()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        self.book.note("initial")
        return {"n": 0, "m": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        end = min(start["n"] + 2, int(self.options["until"]))
        self.book.note("latest", start=start["n"], end=end, limit=type(limit).__name__)
        self.calls += 1
        if self.options.get("shuffles") == "true" and end == start["n"] and self.calls < 12:
            return dict(reversed(start.items()))  # the same offset, written in another order
        return {"n": end, "m": 0} if end != start["n"] else start

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        self.book.note("report")
        return {"n": int(self.options["until"])}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        self.book.note("partitions", start=start["n"], end=end["n"])
        return [InputPartition(number) for number in range(start["n"], end["n"])]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        self.book.note("read", row=partition.value, **properties())
        yield pa.record_batch([pa.array([partition.value], pa.int64())], names=["id"])

    def commit(self, end: dict[str, Any]) -> None:
        self.book.note("commit", end=end["n"])

    def stop(self) -> None:
        self.book.note("stop")


class ProbeWriter(DataSourceStreamArrowWriter):
    """Fails where option `fail` says: `task:ROW` in a task, `commit:BATCH` in the commit."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options
        self.book = Notebook(options["notes"])

    def write(self, iterator: Iterator[Any]) -> Message:
        rows = [row for batch in iterator for row in batch.column("id").to_pylist()]
        told = properties()
        self.book.note("write", rows=rows, **told)
        kind, _, number = self.options.get("fail", "").partition(":")
        if kind == "task" and int(number) in rows and not Path(self.options["notes"] + ".healed").exists():
            raise ValueError("a task that fails on purpose")
        return Message(told["partition"])

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        self.book.note("sink commit", batch=batchId, messages=_tasks(messages))
        if self.options.get("fail") == f"commit:{batchId}":
            raise ValueError("a commit that fails on purpose")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        self.book.note("sink abort", batch=batchId, messages=_tasks(messages))


def _tasks(messages: list[WriterCommitMessage | None]) -> list[str | None]:
    return [message.task if isinstance(message, Message) else None for message in messages]


class OddReader(DataSourceReader):
    """Yields a batch whose type is nearly that of the schema."""

    def __init__(self, yields: str) -> None:
        self.yields = yields

    def read(self, partition: InputPartition) -> Iterator[Any]:
        kind = {"int64": pa.int64(), "int32": pa.int32()}[self.yields]
        yield pa.record_batch([pa.array([1], kind)], names=["id"])


class PushingReader(DataSourceReader):
    """A reader that could take filters."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802 - Spark's name
        return filters

    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield pa.record_batch([pa.array([1], pa.int64())], names=["id"])
