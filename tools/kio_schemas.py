"""Kafka's schemas as kio has them: one structure for each version of each message.

For `make_messages.py`, and for tests that compare our codecs with kio's.
"""

from __future__ import annotations

import dataclasses
import sys
import types
import typing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from kio.index import load_entity_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from klamm.protocol.types import ZERO_ID, Direction

# Durations and instants are plain milliseconds in our messages.
_IN_MILLISECONDS: Final = {"timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64"}
_ZEROS: Final[dict[str, object]] = {
    "string": "",
    "bytes": b"",
    "records": b"",
    "bool": False,
    "float64": 0.0,
    "uuid": ZERO_ID,
}
# A message has a method of this name.
_OUR_FIELDS: Final = {"values": "quota_values"}
# The request has another structure of this name.
_OUR_STRUCTS: Final = {("alter_client_quotas", "response", "EntryData"): "EntryResult"}


@dataclass(frozen=True, slots=True)
class KioField:
    """One field of one version of a message."""

    name: str  # as in our messages
    kio_name: str
    type: str  # int8..int64, uint16, bool, float64, string, bytes, records, uuid, struct
    kio_type: str  # has names of its own for durations, instants and error codes
    is_array: bool
    is_nullable: bool
    tag: int | None
    default: object
    struct: KioStruct | None = None


@dataclass(frozen=True, slots=True)
class KioStruct:
    """One structure of one version of a message, fields in wire order."""

    name: str
    is_flexible: bool
    fields: tuple[KioField, ...]
    kio_class: Any


def kio_versions(api_key: int) -> range:
    """The versions that have a schema."""
    versions = sorted(schema_name_map[api_key_map[api_key]])
    return range(versions[0], versions[-1] + 1)


def kio_struct(api_key: int, version: int, direction: Direction) -> KioStruct:
    """The schema of one message version."""
    if direction == "request":
        return _struct(load_entity_schema(api_key_map[api_key], version, EntityType.request))
    return _struct(load_entity_schema(api_key_map[api_key], version, EntityType.response))


def _struct(kio_class: Any) -> KioStruct:
    hints = typing.get_type_hints(kio_class)
    fields = tuple(_field(field, hints[field.name]) for field in dataclasses.fields(kio_class))
    *_, api, _, direction = kio_class.__module__.split(".")
    name = _OUR_STRUCTS.get((api, direction, kio_class.__name__), kio_class.__name__)
    return KioStruct(name, kio_class.__flexible__, fields, kio_class)


def _field(field: dataclasses.Field[Any], hint: Any) -> KioField:
    hint, is_nullable = _without_none(hint)
    is_array = typing.get_origin(hint) is tuple
    if is_array:
        hint = typing.get_args(hint)[0]
        hint, item_is_nullable = _without_none(hint)
        # kio declares "array of uuid" with optional items; the array itself is unaffected.
        assert not item_is_nullable or hint is UUID, (field.name, hint)
    struct = _struct(hint) if dataclasses.is_dataclass(hint) else None
    declared = "struct" if struct else field.metadata["kafka_type"]
    name = _OUR_FIELDS.get(field.name, field.name)
    if declared in _IN_MILLISECONDS and not name.endswith("_ms"):
        name += "_ms"
    # "-1 = no instant" stays -1, and a null topic id is the zero id: both have a value on the wire.
    is_nullable = is_nullable and declared not in ("uuid", "datetime_i64")
    return KioField(
        name=name,
        kio_name=field.name,
        type="int16" if declared == "error_code" else _IN_MILLISECONDS.get(declared, declared),
        kio_type=declared,
        is_array=is_array,
        is_nullable=is_nullable,
        tag=field.metadata.get("tag"),
        default=_default(field, declared, is_array, is_nullable),
        struct=struct,
    )


def _without_none(hint: Any) -> tuple[Any, bool]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        kept = [item for item in typing.get_args(hint) if item is not type(None)]
        assert len(kept) == 1, hint
        return kept[0], True
    return hint, False


def _default(field: dataclasses.Field[Any], declared: str, is_array: bool, is_nullable: bool) -> object:
    if field.default is not dataclasses.MISSING:
        return _plain(field.default, declared)
    if is_array:
        return ()
    if is_nullable or declared == "struct":
        return None
    if declared == "datetime_i64":
        return -1
    return _ZEROS.get(declared, 0)


def _plain(value: Any, declared: str) -> object:
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, bool | str | bytes | float | tuple):
        return value
    if isinstance(value, int):
        return int(value)
    if dataclasses.is_dataclass(value):
        return None  # an absent struct consists of its own defaults
    if value is None:
        return {"uuid": ZERO_ID, "datetime_i64": -1}.get(declared)
    raise AssertionError(f"unexpected default {value!r}")
