"""Requests and answers of the REST API: JSON to what the registry knows, and back."""

from __future__ import annotations

import json
from typing import Any, Final

from klamm.registry.model import AVRO, Reference, RegistryError, Schema, SchemaVersion, invalid_schema
from klamm.registry.registry import parse_version

TYPES: Final = ("JSON", "PROTOBUF", "AVRO")


def loaded(body: bytes) -> dict[str, Any]:
    """The JSON object of a request. Raises RegistryError."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RegistryError(400, f"the request is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise RegistryError(400, "the request is not a JSON object")
    return found


def text_in(body: dict[str, Any], name: str) -> str:
    """A string of a request. Raises RegistryError."""
    value = body.get(name)
    if not isinstance(value, str):
        raise RegistryError(422, f"{name} is missing or not a string")
    return value


def schema_in(body: dict[str, Any]) -> Schema:
    """The schema of a request. Raises RegistryError."""
    schema_type = body.get("schemaType") or AVRO
    if schema_type not in TYPES:
        raise invalid_schema(
            f"unknown schemaType {schema_type!r}: expected one of {', '.join(sorted(TYPES))}"
        )
    if not isinstance(body.get("schema"), str) or not body["schema"]:
        raise invalid_schema("the request has no schema")
    for name in ("metadata", "ruleSet"):
        if body.get(name):
            raise RegistryError(422, f"{name} of schemas is not supported: register the schema without it")
    return Schema(schema_type, body["schema"], tuple(map(_reference, body.get("references") or ())))


def _reference(stated: Any) -> Reference:
    match stated:
        case {"name": str(name), "subject": str(subject), "version": int(version)}:
            return Reference(name, subject, parse_version(str(version)))
        case _:
            raise invalid_schema(f"a reference has a name, a subject and a version, not {stated!r}")


def number_in(body: dict[str, Any], name: str) -> int | None:
    """A number of a request that it may leave out. Raises RegistryError."""
    value = body.get(name)
    if value is None or value == -1:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**31:
        raise RegistryError(422, f"{name}={value!r} is not a number from 1 to 2147483647")
    return value


def schema_out(schema: Schema) -> dict[str, Any]:
    """A schema, as it is in every answer that has one: its type only where it is not Avro."""
    answer: dict[str, Any] = {} if schema.schema_type == AVRO else {"schemaType": schema.schema_type}
    if schema.references:
        answer["references"] = [
            {"name": each.name, "subject": each.subject, "version": each.version}
            for each in schema.references
        ]
    return answer | {"schema": schema.text}


def version_out(version: SchemaVersion) -> dict[str, Any]:
    """A version of a subject."""
    place = {"subject": version.subject, "version": version.version, "id": version.schema_id}
    return place | schema_out(version.schema)
