"""Values in JSON that a schema describes."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from jsonschema import Draft7Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.jsonschema import DRAFT7

from klamm.schemas.registry_client import RegisteredSchema
from klamm.schemas.serde import RegistrySerde


class JsonSchemaSerde(RegistrySerde[Validator]):
    """JSON with the schemas of a registry; every value is validated, in both directions."""

    schema_type: ClassVar[str] = "JSON"

    def parse(self, schema: RegisteredSchema) -> Validator:
        root = json.loads(schema.text)
        kind = validator_for(root, default=Draft7Validator)
        try:
            kind.check_schema(root)
        except SchemaError as error:
            raise ValueError(f"not a JSON schema: {error.message}") from error
        documents = [(name, DRAFT7.create_resource(json.loads(text))) for name, text in schema.used]
        # `registry` is newer than the annotations of the protocol.
        made: Validator = kind(root, registry=Registry().with_resources(documents))
        return made

    def encode(self, parsed: Validator, value: Any) -> bytes:
        _validate(parsed, value)
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()

    def decode(self, parsed: Validator, payload: bytes) -> Any:
        value = json.loads(payload)
        _validate(parsed, value)
        return value

    def name_of(self, parsed: Validator) -> str | None:
        schema: Any = parsed.schema
        return str(schema["title"]) if isinstance(schema, dict) and "title" in schema else None


def _validate(validator: Validator, value: Any) -> None:
    try:
        validator.validate(value)
    except ValidationError as error:
        raise ValueError(
            f"the value does not fit its schema, at {error.json_path}: {error.message}"
        ) from error
