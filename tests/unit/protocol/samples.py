"""Random messages of every version, as ours and as kio's, for tests that compare the two codecs."""

from __future__ import annotations

import importlib
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from kio_schemas import KioField, KioStruct, kio_struct
from klamm.protocol.api import ApiKey
from klamm.protocol.types import Direction

LIMITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
texts = st.text(st.characters(codec="utf-8"), max_size=12)


@cache
def plain_values(struct: KioStruct) -> st.SearchStrategy[dict[str, Any]]:
    """A message as nested dictionaries under our names; None marks an absent tagged struct."""
    return st.fixed_dictionaries({field.name: field_values(field) for field in struct.fields})


def field_values(field: KioField) -> st.SearchStrategy[Any]:
    one = one_value(field)
    if field.is_array:
        many = st.lists(one, max_size=3)
        # A tagged array that may be null has no null on kio's side.
        return st.none() | many if field.is_nullable and field.tag is None else many
    if field.struct is not None and field.tag is not None:
        return st.none()
    return st.none() | one if field.is_nullable and field.tag is None else one


def one_value(field: KioField) -> st.SearchStrategy[Any]:
    if field.struct is not None:
        return plain_values(field.struct)
    match field.type:
        case "string":
            return texts
        case "bytes" | "records":
            return st.binary(max_size=40)
        case "bool":
            return st.booleans()
        case "uuid":
            return st.binary(min_size=16, max_size=16)
        case "float64":
            return st.floats(allow_nan=False)
        case "uint16":
            return st.integers(0, 2**16 - 1)
    if field.kio_type == "error_code":
        return st.integers(-1, 100)
    if field.kio_type == "datetime_i64":
        return st.integers(0, 4_000_000_000_000)
    if field.kio_type == "timedelta_i64":
        return st.integers(0, 10**15)
    bits = LIMITS[field.type]
    return st.integers(-(2**bits), 2**bits - 1)


@cache
def schema(api_key: int, version: int, direction: Direction) -> KioStruct:
    return kio_struct(api_key, version, direction)


def ours(api_key: int, struct: KioStruct, values: dict[str, Any]) -> Any:
    """The values as klamm's message."""
    module = importlib.import_module(f"klamm.protocol.messages.{ApiKey(api_key).name.lower()}")

    def build(part: KioStruct, content: dict[str, Any]) -> Any:
        made = {}
        for field in part.fields:
            value = content[field.name]
            if field.struct is not None and value is not None:
                nested = field.struct
                value = [build(nested, item) for item in value] if field.is_array else build(nested, value)
            made[field.name] = value
        return getattr(module, part.name)(**made)

    return build(struct, values)


def theirs(struct: KioStruct, values: dict[str, Any]) -> Any:
    """The values as kio's message."""
    made: dict[str, Any] = {}
    for field in struct.fields:
        value = values[field.name]
        if field.struct is not None and not field.is_array and value is None and field.tag is not None:
            continue  # kio's own default stands for an absent tag
        if field.is_array and value is not None:
            value = tuple(one_of_theirs(field, item) for item in value)
        elif value is not None:
            value = one_of_theirs(field, value)
        made[field.kio_name] = value
    return struct.kio_class(**made)


def one_of_theirs(field: KioField, value: Any) -> Any:
    if field.struct is not None:
        return theirs(field.struct, value)
    match field.kio_type:
        case "uuid":
            return UUID(bytes=value)
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=value)
        case "datetime_i64":
            return datetime.fromtimestamp(value // 1000, UTC) + timedelta(milliseconds=value % 1000)
        case "error_code":
            from klamm.protocol.errors import ErrorCode

            return ErrorCode(value)
    return value
