"""Converts columns of records to Arrow record batches with Spark's schema, without touching a record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from klamm.protocol.types import TopicPartition
from klamm.records.arrow import BinaryColumn, Columns, HeadersColumn
from klamm.spark.schema import wanted_columns

MAX_ROWS: Final = 16_384  # more at a time makes Spark's pipe slower, not faster
_CONSTANT_ROWS: Final = MAX_ROWS


class RowBuilder:
    """Makes record batches of one partition's columns, in the order of a schema."""

    def __init__(self, schema: StructType, partition: TopicPartition) -> None:
        self.schema = to_arrow_schema(schema, timezone="UTC")
        self.wanted = wanted_columns(schema.fieldNames())
        # The same in every row: made once, cut to length.
        self._constants = {
            "topic": pa.repeat(pa.scalar(partition.topic, pa.string()), _CONSTANT_ROWS),
            "partition": pa.repeat(pa.scalar(partition.partition, pa.int32()), _CONSTANT_ROWS),
        }

    def batches(self, columns: Columns) -> Iterator[Any]:
        """The rows of these columns, as batches of a size that suits Spark."""
        arrays = [self._array(field, columns) for field in self.schema]
        if columns.row_count <= MAX_ROWS:
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)
            return
        whole = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        for start in range(0, columns.row_count, MAX_ROWS):
            yield whole.slice(start, MAX_ROWS)

    def _array(self, field: Any, columns: Columns) -> Any:
        rows = columns.row_count
        if field.name in self._constants:
            return self._constant(field.name, rows)
        found = {
            "key": columns.key,
            "value": columns.value,
            "headers": columns.headers,
            "offset": columns.offset,
            "timestamp": columns.timestamp_ms,
            "timestampType": columns.timestamp_type,
        }[field.name]
        assert found is not None, field.name
        if isinstance(found, BinaryColumn):
            return binary_array(pa.binary(), rows, found)
        if isinstance(found, HeadersColumn):
            return _headers(field.type, rows, found)
        numbers: Any = found
        if field.name == "timestamp":
            numbers = np.frombuffer(found, dtype=np.int64) * 1000  # Spark counts microseconds
        return pa.Array.from_buffers(field.type, rows, [None, pa.py_buffer(numbers)], 0)

    def _constant(self, name: str, rows: int) -> Any:
        constant = self._constants[name]
        if rows > len(constant):
            constant = self._constants[name] = pa.repeat(constant[0], rows)
        return constant.slice(0, rows)


def binary_array(kind: Any, rows: int, column: BinaryColumn) -> Any:
    """Arrow's binary or string around the buffers of a column."""
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.values)]
    return pa.Array.from_buffers(kind, rows, buffers, column.null_count)


def _headers(kind: Any, rows: int, column: HeadersColumn) -> Any:
    pairs = pa.Array.from_buffers(
        kind.value_type,
        column.header_count,
        [None],
        0,
        children=[
            binary_array(pa.string(), column.header_count, column.names),
            binary_array(pa.binary(), column.header_count, column.values),
        ],
    )
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.offsets)]
    return pa.Array.from_buffers(kind, rows, buffers, column.null_count, children=[pairs])
