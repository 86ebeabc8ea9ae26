"""Avro schemas: their canonical form, and what makes one readable with another.

The form is that of Avro's own `Schema.toString`: the attributes in its order, without blanks, names relative
to the enclosing namespace. fastavro's parser decides what is a schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from klamm.registry.formats.avro_reading import AvroReading
from klamm.registry.formats.base import SchemaError

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_FIELD_ORDER: Final = ("name", "type", "doc", "default", "order", "aliases")
_TYPE_ORDER: Final = {
    "record": ("doc", "fields"),
    "error": ("doc", "fields"),
    "enum": ("doc", "symbols", "default"),
    "array": ("items",),
    "map": ("values",),
    "fixed": ("doc", "size"),
}
_NAMED: Final = ("record", "error", "enum", "fixed")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """An Avro schema that was understood."""

    text: str
    types: Mapping[str, Any]  # those that it defines or refers to, by full name
    root: Any

    @property
    def serialized(self) -> str:
        return self.text

    def unreadable(self, written: AvroSchema, /) -> list[str]:
        return AvroReading(self.types, written.types).problems(self.root, written.root)


class AvroFormat:
    """Schemas of type AVRO."""

    def parse(self, text: str, references: Mapping[str, str], /) -> AvroSchema:
        try:
            return self._parse(text, references)
        except RecursionError:
            raise SchemaError("the schema is nested too deeply") from None

    def _parse(self, text: str, references: Mapping[str, str]) -> AvroSchema:
        known: dict[str, Any] = {}
        types: dict[str, Any] = {}
        for referenced in references.values():
            _checked(_loaded(referenced), known)
            _Canonical(types).of(_loaded(referenced), "")
        schema = _loaded(text)
        _checked(schema, known)
        canonical = _Canonical(types).of(schema, "")
        return AvroSchema(json.dumps(canonical, separators=(",", ":"), ensure_ascii=False), types, canonical)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        # Confluent's serializers send the name of a primitive type without quotes.
        if text.strip() in PRIMITIVES:
            return text.strip()
        raise SchemaError(f"not JSON: {error}") from error


def _checked(schema: Any, known: dict[str, Any]) -> None:
    try:
        fastavro.parse_schema(schema, named_schemas=known)
    except UnknownType as error:
        raise SchemaError(f"unknown type {error.name}") from error
    except SchemaParseException as error:
        raise SchemaError(str(error)) from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SchemaError(f"not an Avro schema: {type(error).__name__} {error}") from error


def _valid(name: str) -> str:
    # fastavro takes any name.
    if not _NAME.fullmatch(name):
        raise SchemaError(
            f"invalid name {name!r}: letters, digits and underscores, not beginning with a digit"
        )
    return name


class _Canonical:
    """Puts a schema that was checked into canonical form, and collects the types that it names."""

    def __init__(self, types: dict[str, Any]) -> None:
        self._types = types

    def of(self, schema: Any, space: str) -> Any:
        if isinstance(schema, str):
            return self._name(schema, space)
        if isinstance(schema, list):
            return [self.of(each, space) for each in schema]
        kind = schema["type"]
        if not isinstance(kind, str) or kind not in _TYPE_ORDER:
            inner = self.of(kind, space)
            rest = {name: value for name, value in schema.items() if name != "type"}
            return inner if not rest or not isinstance(inner, str) else {"type": inner, **rest}
        return self._definition(schema, kind, space)

    def _definition(self, schema: dict[str, Any], kind: str, space: str) -> dict[str, Any]:
        made: dict[str, Any] = {"type": kind}
        own = space
        if kind in _NAMED:
            stated, _, name = schema["name"].rpartition(".")
            own = stated or schema.get("namespace", space) or ""
            made["name"] = _valid(name)
            if own != space:
                made["namespace"] = own
            self._types[f"{own}.{name}" if own else name] = made
        for attribute in _TYPE_ORDER[kind]:
            if attribute in schema:
                value = schema[attribute]
                match attribute:
                    case "fields":
                        made[attribute] = self._fields(value, own)
                    case "items" | "values":
                        made[attribute] = self.of(value, own)
                    case _:
                        made[attribute] = value
        known = {"type", "name", "namespace", "aliases", *_TYPE_ORDER[kind]}
        made |= {name: value for name, value in schema.items() if name not in known}
        if schema.get("aliases"):
            made["aliases"] = schema["aliases"]
        return made

    def _fields(self, fields: list[dict[str, Any]], space: str) -> list[dict[str, Any]]:
        names = [_valid(field["name"]) for field in fields]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise SchemaError(f"field {twice[0]} is there twice")
        return [self._field(each, space) for each in fields]

    def _field(self, field: dict[str, Any], space: str) -> dict[str, Any]:
        made = {name: field[name] for name in _FIELD_ORDER if name in field}
        made["type"] = self.of(field["type"], space)
        if made.get("order") == "ascending":
            del made["order"]
        return made | {name: value for name, value in field.items() if name not in _FIELD_ORDER}

    def _name(self, name: str, space: str) -> str:
        if name in PRIMITIVES:
            return name
        stated, _, simple = name.rpartition(".")
        return simple if stated == space and stated else name
