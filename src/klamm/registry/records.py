"""Records of the topic `_schemas`, in the form that Confluent's registry reads and writes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from klamm.registry.model import AVRO, Reference, Schema, SchemaVersion

TOPIC: Final = "_schemas"


@dataclass(frozen=True, slots=True)
class SchemaStored:
    """A version of a subject, live or deleted."""

    version: SchemaVersion


@dataclass(frozen=True, slots=True)
class SchemaForgotten:
    """A version that was deleted for good."""

    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class LevelSet:
    """The compatibility level of a subject, or of all (None); None removes it."""

    subject: str | None
    level: str | None


@dataclass(frozen=True, slots=True)
class ModeSet:
    """The mode of a subject, or of all (None); None removes it."""

    subject: str | None
    mode: str | None


@dataclass(frozen=True, slots=True)
class SubjectDeleted:
    """All versions of a subject up to one are deleted; None as the last version takes that back."""

    subject: str
    last_version: int | None


RegistryRecord: TypeAlias = SchemaStored | SchemaForgotten | LevelSet | ModeSet | SubjectDeleted


def encode(record: RegistryRecord) -> tuple[bytes, bytes | None]:
    """The key and the value of a record."""
    match record:
        case SchemaStored(version):
            return _schema_key(version.subject, version.version), _json(_version_value(version))
        case SchemaForgotten(subject, number):
            return _schema_key(subject, number), None
        case LevelSet(subject, level):
            key = {"keytype": "CONFIG", "subject": subject, "magic": 0}
            return _json(key), None if level is None else _json({"compatibilityLevel": level})
        case ModeSet(subject, mode):
            key = {"keytype": "MODE", "subject": subject, "magic": 0}
            return _json(key), None if mode is None else _json({"mode": mode})
        case SubjectDeleted(subject, last_version):
            key = {"keytype": "DELETE_SUBJECT", "subject": subject, "magic": 0}
            value = {"subject": subject, "version": last_version}
            return _json(key), None if last_version is None else _json(value)


def decode(key: bytes | None, value: bytes | None) -> RegistryRecord | None:
    """The record; None for one that changes nothing here. Raises ValueError for what is no such record."""
    if key is None:
        raise ValueError("a record without a key")
    try:
        name, held = json.loads(key), None if value is None else json.loads(value)
        return _decoded(name, held)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _decoded(key: dict[str, Any], value: dict[str, Any] | None) -> RegistryRecord | None:
    match key["keytype"]:
        case "SCHEMA":
            if value is None:
                return SchemaForgotten(str(key["subject"]), int(key["version"]))
            return SchemaStored(_version_of(value))
        case "CONFIG":
            return LevelSet(key["subject"], None if value is None else str(value["compatibilityLevel"]))
        case "MODE":
            return ModeSet(key["subject"], None if value is None else str(value["mode"]))
        case "DELETE_SUBJECT":
            return SubjectDeleted(str(key["subject"]), None if value is None else int(value["version"]))
        case _:  # NOOP, CONTEXT and what later registries write
            return None


def _schema_key(subject: str, version: int) -> bytes:
    return _json({"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1})


def _version_value(version: SchemaVersion) -> dict[str, Any]:
    schema = version.schema
    value: dict[str, Any] = {
        "subject": version.subject,
        "version": version.version,
        "id": version.schema_id,
    }
    if schema.schema_type != AVRO:
        value["schemaType"] = schema.schema_type
    if schema.references:
        value["references"] = [
            {"name": each.name, "subject": each.subject, "version": each.version}
            for each in schema.references
        ]
    return value | {"schema": schema.text, "deleted": version.deleted}


def _version_of(value: dict[str, Any]) -> SchemaVersion:
    schema_type = value.get("schemaType") or AVRO
    if schema_type not in ("AVRO", "JSON", "PROTOBUF"):
        raise ValueError(f"schema type {schema_type}")
    references = tuple(
        Reference(str(each["name"]), str(each["subject"]), int(each["version"]))
        for each in value.get("references") or ()
    )
    return SchemaVersion(
        str(value["subject"]),
        int(value["version"]),
        int(value["id"]),
        Schema(schema_type, str(value["schema"]), references),
        bool(value.get("deleted")),
    )


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
