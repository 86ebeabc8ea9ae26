"""Columns of framed values in any query: from other sources than ours, or beside other columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import arrow_udf

from klamm.config import ConfigError
from klamm.errors import KlammError
from klamm.spark.options.names import REGISTRY, Given
from klamm.spark.schemas.columns import SchemaColumn, readers_of, type_of
from klamm.spark.schemas.options import SchemaOptions, read_schemas, schema_options
from klamm.spark.schemas.writing import written


class UnreadValueError(KlammError, ValueError):
    """A value that cannot be read with its schema."""


def from_klamm_avro(
    column: Column | str,
    registry: str,
    schema: str,
    *,
    mode: str = "FAILFAST",
    settings: Mapping[str, str] | None = None,
) -> Column:
    """Values that a serializer of a registry has written, as columns of a schema.

    `schema` is a subject, whose latest schema it is, an id, or the text of a schema; the types are those of
    Spark's own `from_avro`. With mode="PERMISSIVE" a value that cannot be read is null. `settings` are other
    ones of the registry, as `basic.auth.user.info`. Schemas of JSON and Protobuf do as well.
    """
    if mode not in ("FAILFAST", "PERMISSIVE"):
        raise ConfigError("mode", f"invalid value {mode!r} for mode: expected FAILFAST or PERMISSIVE")
    read = read_schemas(_options(registry, schema, settings), ())

    def values(column: Any) -> Any:
        found = SchemaColumn(read.values, read.options).read(column)
        if found.bad and mode == "FAILFAST":
            row = min(found.bad)
            raise UnreadValueError(f"value {row + 1} of a batch: {found.bad[row]}")
        return found.column

    try:
        kind = type_of(readers_of(read.values, read.options))
    except ValueError as error:
        raise error if isinstance(error, ConfigError) else ConfigError("schema", str(error)) from error
    return _column(values, kind, column)


def to_klamm_avro(
    column: Column | str,
    registry: str,
    subject: str,
    *,
    schema: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> Column:
    """A column as values of a registry: bytes that name their schema.

    `schema` is `latest`, an id, a subject, or the text of an Avro schema, which is registered under
    `subject`. Without one the schema is made of the column's type. Schemas of JSON and Protobuf do as well.
    """
    options = _options(registry, schema, settings)

    def values(column: Any) -> Any:
        return written(column, options, schema, subject)

    return _column(values, "binary", column)


def _options(registry: str, schema: str | None, settings: Mapping[str, str] | None) -> SchemaOptions:
    given = {REGISTRY: registry, **({} if schema is None else {"valueSchema": schema})}
    given |= {f"{REGISTRY}.{name}": value for name, value in (settings or {}).items()}
    found = schema_options(Given(given), is_source=True)
    assert found is not None
    return found


def _column(function: Any, kind: Any, column: Column | str) -> Column:
    function.__annotations__ = {"column": pa.Array, "return": pa.Array}  # Spark goes by them
    made: Any = arrow_udf  # its stubs require the function type, which warns at run time
    found: Column = made(function, kind)(f.col(column) if isinstance(column, str) else column)
    return found
