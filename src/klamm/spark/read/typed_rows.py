"""Rows whose values, and keys where a schema is given, are read with schemas of a registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from klamm.config import ConfigError
from klamm.errors import KlammError
from klamm.protocol.types import TopicPartition
from klamm.records.arrow import Columns
from klamm.spark.read.rows import RowBuilder
from klamm.spark.schema import source_schema
from klamm.spark.schemas.columns import SchemaColumn, readers_of, type_of
from klamm.spark.schemas.options import ReadSchemas

BAD: Final = StructField("_bad", BinaryType())  # the bytes of a value that cannot be read
ERROR: Final = StructField("_error", StringType())  # why it, or its key, cannot


class BadValueError(KlammError):
    """A value or a key that cannot be read with its schema."""


def typed_schema(read: ReadSchemas, *, includes_headers: bool) -> StructType:
    """All columns. Raises ConfigError for a schema that has none."""
    try:
        value = type_of(readers_of(read.values, read.options))
        key = type_of(readers_of(read.keys, read.options)) if read.keys else BinaryType()
    except ValueError as error:
        raise error if isinstance(error, ConfigError) else ConfigError("valueSchema", str(error)) from error
    kinds = {"value": value, "key": key}
    raw = [
        StructField(each.name, kinds.get(each.name, each.dataType))
        for each in source_schema(includes_headers)
    ]
    if read.options.is_flat:
        if not isinstance(value, StructType):
            raise ConfigError(
                "valueColumns",
                f"valueColumns=columns needs a schema of records, this one is {value.simpleString()}: "
                "write valueColumns=struct",
            )
        own = [StructField(f"_{each.name}", each.dataType) for each in raw if each.name != "value"]
        raw = [*value.fields, *own]
    made = StructType([*raw, *((BAD, ERROR) if read.options.keeps_bad else ())])
    twice = sorted({name for name in made.names if made.names.count(name) > 1})
    if twice:
        raise ConfigError(
            "valueColumns", f"the schema has fields called {', '.join(twice)}: write valueColumns=struct"
        )
    return made


class TypedRowBuilder:
    """Makes record batches of one partition's columns, in the order of a schema."""

    def __init__(self, schema: StructType, partition: TopicPartition, read: ReadSchemas) -> None:
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._partition = partition
        self._options = read.options
        self._sides = {"value": SchemaColumn(read.values, read.options)}
        if read.keys:
            self._sides["key"] = SchemaColumn(read.keys, read.options)
        everything = source_schema(includes_headers=True)
        self._raw_names = {f"_{name}": name for name in everything.names} if read.options.is_flat else {}
        asked = {self._raw_names.get(name, name) for name in schema.names} | {"offset", *self._sides}
        self._rows = RowBuilder(StructType([each for each in everything if each.name in asked]), partition)
        self.wanted = self._rows.wanted

    def batches(self, columns: Columns) -> Iterator[Any]:
        """The rows of these columns. Raises BadValueError unless bad values are kept."""
        for raw in self._rows.batches(columns):
            yield self._typed(raw)

    def _typed(self, raw: Any) -> Any:
        found = {name: raw.column(name) for name in raw.schema.names}
        value = found["value"]
        errors: dict[int, str] = {}
        for side, column in self._sides.items():
            made = column.read(found[side])
            found[side] = made.column
            for row, reason in made.bad.items():
                errors[row] = f"{errors[row]}; {side}: {reason}" if row in errors else f"{side}: {reason}"
        if errors and not self._options.keeps_bad:
            row = min(errors)
            raise BadValueError(
                f"{self._partition} offset {raw.column('offset')[row].as_py()}: {errors[row]}; to read on, "
                "set option badValues=keep, or source.dead_letters of a job"
            )
        found |= _kept(value, errors)
        arrays = [self._column(field, found) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, field: Any, found: Mapping[str, Any]) -> Any:
        if self._options.is_flat and field.name in self._raw_names:
            made = found[self._raw_names[field.name]]
        elif self._options.is_flat and field.name not in (BAD.name, ERROR.name):
            made = pc.struct_field(found["value"], field.name)
        else:
            made = found[field.name]
        return made if made.type == field.type else made.cast(field.type)


def _kept(value: Any, errors: Mapping[int, str]) -> dict[str, Any]:
    if not errors:
        return {BAD.name: pa.nulls(len(value), pa.binary()), ERROR.name: pa.nulls(len(value), pa.string())}
    reasons = pa.array([errors.get(row) for row in range(len(value))], pa.string())
    return {
        BAD.name: pc.if_else(reasons.is_valid(), value, pa.scalar(None, pa.binary())),
        ERROR.name: reasons,
    }
