"""The columns of a source, and those that a sink accepts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from klamm.config import ConfigError
from klamm.records.arrow import Want

HEADERS_TYPE: Final = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
_COLUMNS: Final[tuple[tuple[str, DataType, Want], ...]] = (
    ("key", BinaryType(), Want.KEY),
    ("value", BinaryType(), Want.VALUE),
    ("topic", StringType(), Want(0)),
    ("partition", IntegerType(), Want(0)),
    ("offset", LongType(), Want.OFFSET),
    ("timestamp", TimestampType(), Want.TIMESTAMP),
    ("timestampType", IntegerType(), Want.TIMESTAMP_TYPE),
    ("headers", HEADERS_TYPE, Want.HEADERS),
)


def source_schema(includes_headers: bool) -> StructType:
    """All columns that a topic has."""
    return StructType(
        [StructField(name, kind) for name, kind, _ in _COLUMNS if name != "headers" or includes_headers]
    )


def check_projection(schema: StructType, offered: StructType) -> None:
    """A schema given by the user picks columns; it cannot invent or convert any."""
    known = {field.name: field.dataType for field in offered}
    if not schema.fields:
        raise ConfigError("schema", f"the schema has no column: expected some of {', '.join(known)}")
    for field in schema.fields:
        if field.name == "headers" and field.name not in known:
            raise ConfigError("schema", "column headers requires option includeHeaders=true")
        if field.name not in known:
            raise ConfigError("schema", f"unknown column {field.name}: expected some of {', '.join(known)}")
        if _plain(field.dataType) != _plain(known[field.name]):
            raise ConfigError(
                "schema",
                f"column {field.name} is {known[field.name].simpleString()}, not "
                f"{field.dataType.simpleString()}: convert it in the query",
            )


def wanted_columns(names: Sequence[str]) -> Want:
    """What must be decoded for these columns."""
    wanted = Want(0)
    for name, _, bit in _COLUMNS:
        if name in names:
            wanted |= bit
    return wanted


def check_sink_schema(schema: StructType, topic: str | None, *, has_schemas: bool = False) -> None:
    """Check that rows of this schema can become records; raises ConfigError.

    With schemas of a registry keys and values can be of any type.

    Names are matched with case, and other columns are left alone.
    """
    text_or_bytes = (StringType(), BinaryType())
    columns = {field.name: field.dataType for field in schema.fields}
    if "value" not in columns:
        raise ConfigError(
            "value", f"column value is missing, found {', '.join(columns) or 'none'}: rename one to value"
        )
    if not has_schemas:
        _check_column(columns, "value", text_or_bytes)
        _check_column(columns, "key", text_or_bytes)
    _check_column(columns, "headers", (HEADERS_TYPE,))
    _check_column(columns, "partition", (IntegerType(),))
    if topic is None:
        if "topic" not in columns:
            raise ConfigError("topic", "column topic is missing: set option topic, or add the column")
        _check_column(columns, "topic", (StringType(),))


def _check_column(columns: dict[str, DataType], name: str, allowed: tuple[DataType, ...]) -> None:
    found = columns.get(name)
    if found is not None and _plain(found) not in [_plain(kind) for kind in allowed]:
        wanted = " or ".join(kind.simpleString() for kind in allowed)
        raise ConfigError(
            name, f"column {name} is {found.simpleString()}: cast it to {wanted}{_hint(name, found)}"
        )


def _hint(name: str, found: DataType) -> str:
    """A row of columns is what people write with a schema."""
    if name == "value" and isinstance(found, StructType):
        return ", write to_json(value), or set option schemaRegistry"
    return ""


def _plain(kind: DataType) -> str:
    """A type without its nullability, which does not affect the layout of values."""
    if isinstance(kind, StringType):
        return "string"  # whatever its collation
    return kind.simpleString()
