"""A data source that hands prepared Arrow batches to Spark: what every source in Python costs at least.

Its rows have the columns and sizes of those that `bench.spark_vs_connector` reads from a topic. Nothing is
fetched, checked or decoded, so no source in Python reads faster than this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from klamm.spark.read.reading import MAX_PARTITION_BYTES
from klamm.spark.read.rows import MAX_ROWS
from klamm.spark.schema import source_schema

KEY: Final = b"0123456789abcdef"
TOPIC: Final = "bench-0123456789ab"


class PreparedRows(DataSourceReader):
    """The same batch again and again, cut to what a partition has."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.rows, self.size = int(options["rows"]), int(options["size"])
        self.partition_count = int(options["partitions"])
        self.schema = schema

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self.partition_count)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        batch = self.batch(min(MAX_ROWS, MAX_PARTITION_BYTES // (self.size + len(KEY))))
        left = self.rows // self.partition_count
        while left > 0:
            yield batch.slice(0, min(left, batch.num_rows))
            left -= batch.num_rows

    def batch(self, rows: int) -> Any:
        row: dict[str, Any] = {"key": KEY, "value": b"v" * self.size, "topic": TOPIC, "partition": 0}
        row |= {"offset": 0, "timestamp": 0, "timestampType": 0}
        schema = to_arrow_schema(self.schema, timezone="UTC")
        return pa.RecordBatch.from_arrays(
            [pa.array([row[field.name]] * rows, field.type) for field in schema], schema=schema
        )


class PreparedSource(DataSource):
    """Options: `rows`, the `size` of a value, and `partitions`."""

    @classmethod
    def name(cls) -> str:
        return "prepared"

    def schema(self) -> StructType:
        return source_schema(includes_headers=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        return PreparedRows(self.options, schema)
