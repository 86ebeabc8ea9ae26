"""Values in JSON that a schema describes, as columns. What has no type in Spark is a column of JSON text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from klamm.schemas.json_schema import JsonSchemaSerde
from klamm.schemas.registry_client import RegisteredSchema, SchemaRegistry

Shape: TypeAlias = Callable[[Any], Any]
_ANY: Final[tuple[t.DataType, Shape]] = (
    t.StringType(),
    lambda value: None if value is None else json.dumps(value, separators=(",", ":"), ensure_ascii=False),
)
_PLAIN: Final[Mapping[str, tuple[t.DataType, Shape]]] = {
    "integer": (t.LongType(), lambda value: None if value is None else int(value)),
    "number": (t.DoubleType(), lambda value: None if value is None else float(value)),
    "string": (t.StringType(), lambda value: value),
    "boolean": (t.BooleanType(), lambda value: value),
}


class JsonSchemaReader:
    """Reads values that fit the schemas they were written with, as the type of one schema."""

    schema_type = "JSON"

    def __init__(self, schema: RegisteredSchema, registry: SchemaRegistry) -> None:
        self._serde = JsonSchemaSerde(registry)
        self._validators: dict[int, Any] = {}
        try:
            self.spark, self._shape = _Reading(schema).type_of(json.loads(schema.text), ())
        except RecursionError as error:
            raise ValueError("the JSON schema is nested too deeply") from error
        self._arrow = to_arrow_type(self.spark, timezone="UTC")
        self.name = _title(schema)

    def accepts(self, written: RegisteredSchema) -> bool:
        return written.schema_type == "JSON" and _title(written) == self.name

    def read(self, written: RegisteredSchema, payloads: Sequence[bytes]) -> Any:
        """The column of these values. Raises ValueError if one of them cannot be read."""
        validator = self._validators.get(written.schema_id)
        if validator is None:
            validator = self._validators[written.schema_id] = self._serde.parse(written)
        try:
            values = [self._shape(self._serde.decode(validator, payload)) for payload in payloads]
            return pa.array(values, self._arrow)
        except (pa.ArrowException, OverflowError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"the value does not fit the columns of its JSON schema: {error}") from error


def _title(schema: RegisteredSchema) -> str | None:
    tree = json.loads(schema.text)
    return tree.get("title") if isinstance(tree, dict) else None


class _Reading:
    """One pass over a schema."""

    def __init__(self, schema: RegisteredSchema) -> None:
        self._documents = {"": json.loads(schema.text)} | {
            name: json.loads(text) for name, text in schema.used
        }

    def type_of(self, tree: Any, within: tuple[str, ...]) -> tuple[t.DataType, Shape]:
        """The type of a part of the schema, and what makes its values of JSON."""
        if not isinstance(tree, dict):
            return _ANY
        if "$ref" in tree:
            return self._referred(str(tree["$ref"]), within)
        for name in ("oneOf", "anyOf"):
            if name in tree:
                others = [each for each in tree[name] if each != {"type": "null"}]
                return self.type_of(others[0], within) if len(others) == 1 else _ANY
        kind = tree.get("type")
        if isinstance(kind, list):
            kinds = [each for each in kind if each != "null"]
            kind = kinds[0] if len(kinds) == 1 else None
        match kind:
            case "object" if tree.get("properties"):
                return self._record(tree["properties"], within)
            case "object" if isinstance(tree.get("additionalProperties"), dict):
                return self._map(tree["additionalProperties"], within)
            case "array" if isinstance(tree.get("items"), dict):
                return self._array(tree["items"], within)
        return _PLAIN.get(str(kind), _ANY)

    def _referred(self, reference: str, within: tuple[str, ...]) -> tuple[t.DataType, Shape]:
        if reference in within:
            raise ValueError(f"the JSON schema is recursive: {reference} contains itself, and no column can")
        document, _, path = reference.partition("#")
        found = self._documents.get(document)
        for step in filter(None, path.split("/")):
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        if found is None:
            raise ValueError(f"the JSON schema refers to {reference}, which it does not have")
        return self.type_of(found, (*within, reference))

    def _record(self, properties: Mapping[str, Any], within: tuple[str, ...]) -> tuple[t.DataType, Shape]:
        found = {name: self.type_of(each, within) for name, each in properties.items()}
        kind = t.StructType([t.StructField(name, each) for name, (each, _) in found.items()])

        def shaped(value: Any) -> Any:
            if value is None:
                return None
            return {name: shape(value.get(name)) for name, (_, shape) in found.items()}

        return kind, shaped

    def _map(self, tree: Any, within: tuple[str, ...]) -> tuple[t.DataType, Shape]:
        kind, shape = self.type_of(tree, within)

        def shaped(value: Any) -> Any:
            return None if value is None else [(name, shape(each)) for name, each in value.items()]

        return t.MapType(t.StringType(), kind), shaped

    def _array(self, tree: Any, within: tuple[str, ...]) -> tuple[t.DataType, Shape]:
        kind, shape = self.type_of(tree, within)
        return t.ArrayType(kind), lambda value: None if value is None else [shape(each) for each in value]
