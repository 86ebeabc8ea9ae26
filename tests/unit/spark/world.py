"""A cluster as a test sees it: topics with known records, readers and writers as plain objects."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

import klamm
from klamm.client.admin.model import NewTopic
from klamm.protocol.types import TopicPartition
from klamm.spark.read.batch_reader import BatchReader
from klamm.spark.read.reading import RangePartition, RangesPartition
from klamm.spark.read.splitting import OffsetRange
from klamm.spark.read.stream_reader import StreamReader
from klamm.spark.source import KlammDataSource

_numbers: Final[Iterator[int]] = itertools.count(int.from_bytes(os.urandom(4)) << 16)
# Waiting is what most tests are not about.
PATIENCE: Final = {"fetchOffset.retryIntervalMs": "1", "latestOffset.maxWaitMs": "0"}
Row = dict[str, Any]


class World:
    """One test's view of the shared broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = klamm.Admin(bootstrap_servers=bootstrap)
        self._producer: klamm.Producer | None = None

    def close(self) -> None:
        self.admin.close()
        if self._producer is not None:
            self._producer.close()

    def topic(self, partitions: int = 1, *, name: str | None = None, **configs: str) -> str:
        """A topic nobody else knows."""
        chosen = name or f"s-{next(_numbers):x}"
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        self.admin.create_topics([NewTopic(chosen, partitions, configs=dotted)]).unwrap()
        return chosen

    def fill(
        self,
        topic: str,
        values: Sequence[bytes | None],
        *,
        partition: int = 0,
        timestamps_ms: Sequence[int] | None = None,
        key: bytes | None = b"k",
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        """Put records into a partition and wait for them."""
        if self._producer is None:
            self._producer = klamm.Producer(bootstrap_servers=self.bootstrap)
        for index, value in enumerate(values):
            self._producer.send(
                topic,
                value,
                key=key,
                partition=partition,
                headers=headers,
                timestamp_ms=None if timestamps_ms is None else timestamps_ms[index],
            )
        self._producer.flush()

    def source(self, **options: str) -> KlammDataSource:
        """The data source; `_` in a name stands for a dot."""
        given = {name.replace("_", "."): value for name, value in options.items()}
        return KlammDataSource({"kafka.bootstrap.servers": self.bootstrap, **PATIENCE, **given})

    def batch(self, schema: StructType | None = None, /, **options: str) -> BatchReader:
        source = self.source(**options)
        reader = source.reader(schema or source.schema())
        assert isinstance(reader, BatchReader)
        return reader

    def rows(self, schema: StructType | None = None, /, **options: str) -> list[Row]:
        """What a batch reads, in the order of its tasks."""
        reader = self.batch(schema, **options)
        return rows_of(reader, reader.partitions())

    def values(self, **options: str) -> list[Any]:
        return [row["value"] for row in self.rows(**options)]

    def stream(self, **options: str) -> StreamReader:
        source = self.source(**options)
        reader = source.streamReader(source.schema())
        assert isinstance(reader, StreamReader)
        return reader

    def end_offset(self, topic: str, partition: int = 0) -> int:
        found = self.admin.list_offsets({TopicPartition(topic, partition): -1}).unwrap()
        return found[TopicPartition(topic, partition)].offset


def rows_of(reader: BatchReader | StreamReader, tasks: Sequence[InputPartition]) -> list[Row]:
    found: list[Row] = []
    for task in tasks:
        for batch in reader.read(task):
            found += batch.to_pylist()
    return found


def ranges_of(tasks: Sequence[InputPartition]) -> list[OffsetRange]:
    return [item.offsets for task in tasks for item in _parts(task)]


def _parts(task: InputPartition) -> Sequence[RangePartition]:
    if isinstance(task, RangesPartition):
        return task.ranges
    return [task] if isinstance(task, RangePartition) else []


class Query:
    """What Spark does with a stream reader, batch by batch."""

    def __init__(self, reader: StreamReader, start: Mapping[str, Any] | None = None) -> None:
        self.reader = reader
        self.at: dict[str, Any] = dict(start) if start is not None else reader.initialOffset()

    def next(self, limit: ReadLimit | None = None) -> list[Row] | None:
        """The next micro-batch; None when there is none."""
        end = self.reader.latestOffset(self.at, limit or self.reader.getDefaultReadLimit())
        if end == self.at:
            return None
        rows = rows_of(self.reader, self.reader.partitions(self.at, end))
        self.at = end
        return rows

    def everything(self) -> list[Row]:
        end = self.reader.latestOffset(self.at, ReadAllAvailable())
        rows = rows_of(self.reader, self.reader.partitions(self.at, end))
        self.at = end
        return rows


def table(**columns: Any) -> pa.RecordBatch:
    """Rows for a writer."""
    return pa.RecordBatch.from_pydict(columns)
