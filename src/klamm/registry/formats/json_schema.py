"""JSON schemas: draft 4 to 2020-12, as their `$schema` says; draft 7 without one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from jsonschema import Draft7Validator
from jsonschema.exceptions import SchemaError as InvalidSchemaError
from jsonschema.validators import validator_for

from klamm.registry.formats.base import SchemaError
from klamm.registry.formats.json_reading import JsonDocument, JsonReading

_ID: Final = ("$id", "id")


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """A JSON schema that was understood."""

    text: str
    root: Any
    documents: Mapping[str, Any]  # those that it refers to, by name and by id

    @property
    def serialized(self) -> str:
        return self.text

    def unreadable(self, written: JsonSchema, /) -> list[str]:
        mine = JsonDocument(self.root, self.documents)
        return JsonReading(mine, JsonDocument(written.root, written.documents)).problems()


class JsonFormat:
    """Schemas of type JSON."""

    def parse(self, text: str, references: Mapping[str, str], /) -> JsonSchema:
        documents: dict[str, Any] = {}
        for name, referenced in references.items():
            document = _loaded(referenced)
            documents[name] = document
            if isinstance(document, dict):
                documents |= {document[key]: document for key in _ID if isinstance(document.get(key), str)}
        schema = _loaded(text)
        if not isinstance(schema, dict | bool):
            raise SchemaError(f"a JSON schema is an object or a boolean, not {type(schema).__name__}")
        try:
            # It takes a boolean, too, whatever its annotation says.
            validator_for(schema, default=Draft7Validator).check_schema(cast(dict[str, Any], schema))
        except InvalidSchemaError as error:
            place = "/".join(str(part) for part in error.absolute_path)
            raise SchemaError(f"at /{place}: {error.message}") from error
        except RecursionError:
            raise SchemaError("the schema is nested too deeply") from None
        return JsonSchema(json.dumps(schema, separators=(",", ":"), ensure_ascii=False), schema, documents)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise SchemaError(f"not JSON: {error}") from error
    except RecursionError:
        raise SchemaError("the schema is nested too deeply") from None
