"""Columns of framed values as columns of their schemas: by schema, and what cannot be read one by one."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StructField, StructType

from klamm.schemas.framing import unframed
from klamm.schemas.registry_client import RegisteredSchema, SchemaRegistry, SchemaRegistryError
from klamm.spark.schemas.options import SchemaOptions, need_packages, registry_for

HEADER_BYTES: Final = 5
_UNKNOWN_SCHEMA: Final = 40403


class SchemaReader(Protocol):
    """Reads values of many schemas as those of one."""

    schema_type: str
    name: str | None
    spark: DataType

    def accepts(self, written: RegisteredSchema) -> bool: ...
    def read(self, written: RegisteredSchema, payloads: Sequence[bytes]) -> Any: ...


class Read(NamedTuple):
    """A column, and what is wrong with the rows that are null because their value cannot be read."""

    column: Any
    bad: Mapping[int, str]


@lru_cache(maxsize=32)
def readers_of(schemas: tuple[RegisteredSchema, ...], options: SchemaOptions) -> tuple[SchemaReader, ...]:
    """The readers of these schemas in this process. Raises ConfigError for a schema without columns."""
    return tuple(_reader(each, registry_for(options)) for each in schemas)


def _reader(schema: RegisteredSchema, registry: SchemaRegistry) -> SchemaReader:
    # Each needs packages that the others do not.
    try:
        match schema.schema_type:
            case "AVRO":
                from klamm.spark.schemas.avro import AvroReader  # noqa: PLC0415

                return AvroReader(schema)
            case "JSON":
                from klamm.spark.schemas.json_schema import JsonSchemaReader  # noqa: PLC0415

                return JsonSchemaReader(schema, registry)
            case "PROTOBUF":
                from klamm.spark.schemas.protobuf import ProtobufReader  # noqa: PLC0415

                return ProtobufReader(schema, registry)
    except ModuleNotFoundError as error:
        raise need_packages(error) from error
    raise ValueError(f"schemas of type {schema.schema_type} are not known")


class SchemaColumn:
    """Reads one column; made for each task, as it remembers which ids the registry does not have."""

    def __init__(self, schemas: tuple[RegisteredSchema, ...], options: SchemaOptions) -> None:
        self._readers = readers_of(schemas, options)
        self._registry = registry_for(options)
        self._known: dict[int, tuple[RegisteredSchema, int]] = {}
        self._unknown: dict[int, str] = {}
        self.spark = type_of(self._readers)
        self._arrow = to_arrow_type(self.spark, timezone="UTC")

    def read(self, values: Any) -> Read:
        """The column of these bytes. Raises SchemaRegistryError when the registry does not answer."""
        with _without_collector():
            return self._read(values)

    def _read(self, values: Any) -> Read:
        bad: dict[int, str] = {}
        pieces, rows = [pa.nulls(0, self._arrow)], []
        framed = _Framed(values)
        for row in framed.odd:
            bad[row] = _reason(values[row].as_py())
        for schema_id, found in framed.by_schema():
            reason = self._learnt(schema_id)
            if reason is not None:
                bad.update(dict.fromkeys(map(int, found), reason))
                continue
            for piece, part in self._pieces(schema_id, found, framed, bad):
                pieces.append(piece)
                rows.append(part)
        return Read(self._assembled(pieces, rows, len(values)), bad)

    def _learnt(self, schema_id: int) -> str | None:
        """Look a schema up; what is wrong with it, if something is."""
        if schema_id in self._known:
            return None
        if schema_id not in self._unknown:
            try:
                written = self._registry.schema(schema_id)
                if written.schema_type == "PROTOBUF":
                    written = self._registry.schema(schema_id, "serialized")
                self._known[schema_id] = written, self._chosen(written)
                return None
            except SchemaRegistryError as error:
                if error.code != _UNKNOWN_SCHEMA:
                    raise
                self._unknown[schema_id] = f"the schema registry does not know the value's schema {schema_id}"
            except ValueError as error:
                self._unknown[schema_id] = f"schema {schema_id}: {error}"
        return self._unknown[schema_id]

    def _chosen(self, written: RegisteredSchema) -> int:
        for number, reader in enumerate(self._readers):
            if reader.accepts(written):
                return number
        if len(self._readers) == 1 and self._readers[0].schema_type == written.schema_type:
            return 0
        wanted = " or ".join(reader.name or reader.schema_type for reader in self._readers)
        raise ValueError(f"a value of another schema, where {wanted} is read")

    def _pieces(
        self, schema_id: int, rows: Any, framed: _Framed, bad: dict[int, str]
    ) -> list[tuple[Any, Any]]:
        """Values of one schema at once; where that fails, by halves down to those that cannot be read."""
        written, number = self._known[schema_id]
        try:
            made = self._readers[number].read(written, framed.payloads(rows))
        except ValueError as error:
            if len(rows) == 1:
                bad[int(rows[0])] = f"schema {schema_id}: {error}"
                return []
            middle = len(rows) // 2
            halves = rows[:middle], rows[middle:]
            return [piece for half in halves for piece in self._pieces(schema_id, half, framed, bad)]
        if len(self._readers) > 1:
            fields = list(self._arrow)
            members = [
                made if at == number else pa.nulls(len(rows), field.type) for at, field in enumerate(fields)
            ]
            made = pa.StructArray.from_arrays(members, fields=fields)
        return [(made, rows)]

    def _assembled(self, pieces: list[Any], rows: list[Any], count: int) -> Any:
        """The pieces in the order of their rows, with null where there is none."""
        if len(rows) == 1 and len(rows[0]) == count:
            return pieces[1]
        places = np.full(count, -1, np.int64)
        if rows:
            order = np.concatenate(rows)
            places[order] = np.arange(len(order))
        whole = pa.concat_arrays(pieces)
        return whole.take(pa.array(places, mask=places < 0))


@contextmanager
def _without_collector() -> Iterator[None]:
    """Values of a batch are many objects without cycles: looking for some takes as long as reading them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def type_of(readers: Sequence[SchemaReader]) -> DataType:
    """The type of a column: the schema's, or a struct with one field for each of several."""
    if len(readers) == 1:
        return readers[0].spark
    names = [(reader.name or reader.schema_type).rpartition(".")[2] for reader in readers]
    if len(set(names)) < len(names):
        names = [reader.name or f"{reader.schema_type}_{at}" for at, reader in enumerate(readers)]
    return StructType([StructField(name, reader.spark) for name, reader in zip(names, readers, strict=True)])


class _Framed:
    """The frames of a column: which schema each value names, without looking at the values."""

    def __init__(self, values: Any) -> None:
        if values.type != pa.binary():
            values = values.cast(pa.binary())
        _, offsets, data = values.buffers()
        self._data = memoryview(b"" if data is None else data)
        bounds = np.frombuffer(offsets, np.int32, len(values) + 1, 4 * values.offset)
        self._starts, self._ends = bounds[:-1].astype(np.int64), bounds[1:]
        there = np.asarray(values.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
        octets = np.frombuffer(self._data, np.uint8)
        is_framed = there & (self._ends - self._starts >= HEADER_BYTES)
        is_framed[is_framed] = octets[self._starts[is_framed]] == 0
        self.odd = [int(row) for row in np.nonzero(there & ~is_framed)[0]]
        self._rows = np.nonzero(is_framed)[0]
        first = self._starts[self._rows]
        self._ids = np.zeros(len(first), np.int64)
        for place in range(1, HEADER_BYTES):
            self._ids = self._ids << 8 | octets[first + place]

    def by_schema(self) -> list[tuple[int, Any]]:
        """The rows of each schema."""
        return [(int(each), self._rows[self._ids == each]) for each in np.unique(self._ids)]

    def payloads(self, rows: Any) -> list[bytes]:
        """The values of these rows without their frames."""
        data = self._data
        starts, ends = (self._starts[rows] + HEADER_BYTES).tolist(), self._ends[rows].tolist()
        return [bytes(data[start:end]) for start, end in zip(starts, ends, strict=True)]


def _reason(value: bytes) -> str:
    try:
        unframed(value)
    except ValueError as error:
        return str(error)
    raise AssertionError("a value with a frame is not odd")
