"""Values in Avro as columns."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from typing import Any, Final

import fastavro
import pyarrow as pa
from pyspark.sql.types import DataType

from klamm.schemas.registry_client import RegisteredSchema
from klamm.spark.schemas.avro_resolution import resolved
from klamm.spark.schemas.avro_types import AvroType, avro_type

# What fastavro raises for bytes that are not of the schema.
_BROKEN: Final = (EOFError, IndexError, KeyError, TypeError, OverflowError, MemoryError, struct.error)


class AvroReader:
    """Reads values of any schema as those of one, by Avro's rules of schema resolution."""

    schema_type = "AVRO"

    def __init__(self, schema: RegisteredSchema) -> None:
        self._wanted = avro_type(schema)
        self._written: dict[int, tuple[AvroType, Any]] = {schema.schema_id: _readable(self._wanted)}
        self.spark: DataType = self._wanted.spark
        self.name = self._wanted.name or None

    def accepts(self, written: RegisteredSchema) -> bool:
        """Whether these are values of the same record, in whatever version."""
        return written.schema_type == "AVRO" and self._plan(written)[0].name == self._wanted.name

    def read(self, written: RegisteredSchema, payloads: Sequence[bytes]) -> Any:
        """The column of these values. Raises ValueError if one of them cannot be read."""
        kind, encoding = self._plan(written)
        read, values = fastavro.schemaless_reader, []
        for payload in payloads:
            source = io.BytesIO(payload)
            try:
                values.append(read(source, encoding, None))
            except _BROKEN as error:
                raise ValueError(f"not a value of its Avro schema: {type(error).__name__} {error}") from error
            if source.tell() != len(payload):
                raise ValueError(
                    f"the value ends after {source.tell()} of {len(payload)} bytes: not one of its schema"
                )
        try:
            return resolved(pa.array(values, kind.raw), kind, self._wanted)
        except (pa.ArrowException, OverflowError, TypeError) as error:
            raise ValueError(f"a value does not fit its Avro type: {error}") from error

    def _plan(self, written: RegisteredSchema) -> tuple[AvroType, Any]:
        found = self._written.get(written.schema_id)
        if found is None:
            found = self._written[written.schema_id] = _readable(avro_type(written))
        return found


def _readable(kind: AvroType) -> tuple[AvroType, Any]:
    return kind, fastavro.parse_schema(kind.encoding)
