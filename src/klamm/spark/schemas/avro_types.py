"""A schema of Avro as columns: its types in Spark and Arrow, and a form that fastavro reads for it.

The types are those of Spark's own `from_avro`. Values are read with a schema of the same encoding, whose
values Arrow takes as they are: without logical types, with each branch of a union in a record that names it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import fastavro
import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from klamm.schemas.registry_client import RegisteredSchema

MAX_TYPES: Final = 10_000  # of a schema, with what its names stand for: a small one can stand for millions
_TIMES: Final = ("timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros")
_LOGICAL: Final[Mapping[str, tuple[str, ...]]] = {"int": ("date",), "long": (*_TIMES, "time-micros")}
_WIDER: Final = ({"int", "long"}, {"float", "double"})
_PLAIN: Final[Mapping[str, tuple[Any, Any]]] = {
    "null": (t.NullType(), pa.null()),
    "boolean": (t.BooleanType(), pa.bool_()),
    "int": (t.IntegerType(), pa.int32()),
    "long": (t.LongType(), pa.int64()),
    "float": (t.FloatType(), pa.float32()),
    "double": (t.DoubleType(), pa.float64()),
    "bytes": (t.BinaryType(), pa.binary()),
    "fixed": (t.BinaryType(), pa.binary()),
    "string": (t.StringType(), pa.string()),
    "enum": (t.StringType(), pa.string()),
}


@dataclass(frozen=True, slots=True)
class AvroField:
    """A field of a record; `default` is JSON."""

    name: str
    aliases: tuple[str, ...]
    type: AvroType
    has_default: bool
    default: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroType:
    """A type without its names; a union of one type and null is that type, nullable."""

    kind: str
    encoding: Any = field(compare=False, repr=False)  # for fastavro
    nullable: bool = False
    name: str = ""
    logical: str | None = None
    fields: tuple[AvroField, ...] = ()
    parts: tuple[AvroType, ...] = ()  # of an array or a map: one; of a union: its branches but null
    symbols: tuple[str, ...] = ()
    default: str | None = None  # an enum's
    precision: int = 0
    scale: int = 0

    @property
    def spark(self) -> t.DataType:
        """The type of the column."""
        match self.kind, self.logical:
            case "record", _:
                return t.StructType([t.StructField(each.name, each.type.spark) for each in self.fields])
            case "union", _:
                return t.StructType(
                    [t.StructField(f"member{number}", part.spark) for number, part in enumerate(self.parts)]
                )
            case "array", _:
                return t.ArrayType(self.parts[0].spark)
            case "map", _:
                return t.MapType(t.StringType(), self.parts[0].spark)
            case _, "date":
                return t.DateType()
            case _, "time-micros":
                return t.TimeType(6)
            case _, "timestamp-millis" | "timestamp-micros":
                return t.TimestampType()
            case _, "local-timestamp-millis" | "local-timestamp-micros":
                return t.TimestampNTZType()
            case _, "decimal":
                return t.DecimalType(self.precision, self.scale)
        plain: t.DataType = _PLAIN[self.kind][0]
        return plain

    @property
    def arrow(self) -> Any:
        """The same in Arrow."""
        return to_arrow_type(self.spark, timezone="UTC")

    @property
    def raw(self) -> Any:
        """What fastavro's values are in Arrow, before logical types."""
        match self.kind:
            case "record":
                return pa.struct([(each.name, each.type.raw) for each in self.fields])
            case "union":
                return pa.struct([(f"member{number}", part.raw) for number, part in enumerate(self.parts)])
            case "array":
                return pa.list_(self.parts[0].raw)
            case "map":
                return pa.map_(pa.string(), self.parts[0].raw)
        return _PLAIN[self.kind][1]


def avro_type(schema: RegisteredSchema) -> AvroType:
    """The type of a schema. Raises ValueError for one that is not Avro, or that Spark has no columns for."""
    named: dict[str, Any] = {}
    try:
        for _, text in schema.used:
            fastavro.parse_schema(json.loads(text), named_schemas=named)
        parsed = fastavro.parse_schema(json.loads(schema.text), named_schemas=named)
        return _Reading(named).type_of(parsed)
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, KeyError, TypeError) as error:
        raise ValueError(f"not an Avro schema: {type(error).__name__} {error}") from error
    except RecursionError as error:
        raise ValueError("the Avro schema is nested too deeply") from error


class _Reading:
    """One pass over a schema."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._within: list[str] = []
        self._count = 0

    def type_of(self, schema: Any) -> AvroType:
        self._count += 1
        if self._count > MAX_TYPES:
            raise ValueError(f"the Avro schema has more than {MAX_TYPES} types")
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return self._plain(schema) if schema in _PLAIN else self.type_of(self._named[schema])
        kind = schema["type"]
        match kind:
            case "record" | "error":
                return self._record(schema)
            case "array":
                part = self.type_of(schema["items"])
                return AvroType(
                    kind="array", parts=(part,), encoding={"type": "array", "items": part.encoding}
                )
            case "map":
                part = self.type_of(schema["values"])
                return AvroType(kind="map", parts=(part,), encoding={"type": "map", "values": part.encoding})
            case "enum":
                return self._enum(schema)
            case "fixed":
                encoding = {"type": "fixed", "name": self._fresh(), "size": schema["size"]}
                return AvroType(kind="fixed", name=schema["name"], encoding=encoding, **_decimal(schema))
            case str() if kind in _PLAIN:
                return self._plain(kind, schema)
        return self.type_of(kind)  # a type within a type

    def _plain(self, kind: str, schema: Mapping[str, Any] | None = None) -> AvroType:
        logical = None if schema is None else schema.get("logicalType")
        if logical in _LOGICAL.get(kind, ()):
            return AvroType(kind=kind, logical=logical, encoding=kind)
        if kind == "bytes" and schema is not None:
            return AvroType(kind=kind, encoding=kind, **_decimal(schema))
        return AvroType(kind=kind, encoding=kind, nullable=kind == "null")

    def _record(self, schema: Mapping[str, Any]) -> AvroType:
        name = schema["name"]
        if name in self._within:
            raise ValueError(f"the Avro schema is recursive: {name} contains itself, and no column can")
        self._within.append(name)
        fields = tuple(
            AvroField(
                each["name"],
                tuple(each.get("aliases") or ()),
                self.type_of(each["type"]),
                "default" in each,
                each.get("default"),
            )
            for each in schema["fields"]
        )
        self._within.pop()
        return AvroType(
            kind="record", name=name, fields=fields, encoding=self._encoded({f.name: f.type for f in fields})
        )

    def _encoded(self, fields: Mapping[str, AvroType]) -> Any:
        written = [{"name": name, "type": kind.encoding} for name, kind in fields.items()]
        return {"type": "record", "name": self._fresh(), "fields": written}

    def _enum(self, schema: Mapping[str, Any]) -> AvroType:
        symbols = tuple(schema["symbols"])
        encoding = {"type": "enum", "name": self._fresh(), "symbols": list(symbols)}
        return AvroType(
            kind="enum",
            name=schema["name"],
            symbols=symbols,
            default=schema.get("default"),
            encoding=encoding,
        )

    def _union(self, branches: list[Any]) -> AvroType:
        found = [self.type_of(each) for each in branches]
        parts = [each for each in found if each.kind != "null"]
        nullable = len(parts) < len(found)
        if not parts:
            return AvroType(kind="null", nullable=True, encoding=[each.encoding for each in found])
        plain = {each.kind for each in parts if each.logical is None}
        if len(parts) > 1 and plain not in _WIDER:
            return self._branches(found, tuple(parts), nullable)
        wide = max(parts, key=lambda each: each.kind in ("long", "double"))
        return replace(wide, encoding=[each.encoding for each in found], nullable=nullable)

    def _branches(self, found: list[AvroType], parts: tuple[AvroType, ...], nullable: bool) -> AvroType:
        names = iter(range(len(parts)))
        encoding = [
            each.encoding if each.kind == "null" else self._encoded({f"member{next(names)}": each})
            for each in found
        ]
        return AvroType(kind="union", parts=parts, nullable=nullable, encoding=encoding)

    def _fresh(self) -> str:
        self._count += 1
        return f"t{self._count}"


def _decimal(schema: Mapping[str, Any]) -> dict[str, Any]:
    if schema.get("logicalType") != "decimal":
        return {}
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision <= 38:
        return {}  # as bytes: Avro ignores what is not valid, and Spark has no more than 38 digits
    return {"logical": "decimal", "precision": precision, "scale": scale}
