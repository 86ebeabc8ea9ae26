"""Values of columns as fastavro writes them: members of a union are the values that they hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from klamm.spark.schemas.avro_types import AvroType


def value_maker(kind: AvroType) -> Callable[[Any], Any]:
    """What makes a value of a row; itself where nothing is to be done."""
    return _maker(kind) or _as_it_is


def _as_it_is(value: Any) -> Any:
    return value


def _maker(kind: AvroType) -> Callable[[Any], Any] | None:
    parts = [_maker(part) for part in kind.parts]
    each = parts[0] if parts else None
    match kind.kind:
        case "union":
            return lambda value: None if value is None else _member(value, parts)
        case "array" if each is not None:
            return lambda value: None if value is None else [each(item) for item in value]
        case "map" if each is not None:
            return lambda value: None if value is None else {name: each(item) for name, item in value.items()}
        case "record":
            made = {item.name: maker for item in kind.fields if (maker := _maker(item.type)) is not None}
            return (lambda value: _record(value, made)) if made else None
    return None


def _record(value: Any, made: dict[str, Callable[[Any], Any]]) -> Any:
    if value is None:
        return None
    return value | {name: maker(value.get(name)) for name, maker in made.items()}


def _member(value: dict[str, Any], parts: list[Callable[[Any], Any] | None]) -> Any:
    for number, maker in enumerate(parts):
        found = value.get(f"member{number}")
        if found is not None:
            return found if maker is None else maker(found)
    raise ValueError("a union has no member that is set")
