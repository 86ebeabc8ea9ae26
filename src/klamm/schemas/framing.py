"""Confluent's frame around a value: a zero byte and the id of its schema, before the value itself."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, TypeAlias

_HEADER: Final = struct.Struct(">bI")

# The subject of a schema, from the topic, the name of the record (None without one) and whether it is a key.
SubjectStrategy: TypeAlias = Callable[[str, str | None, bool], str]


def framed(schema_id: int, payload: bytes) -> bytes:
    """A value with its frame."""
    return _HEADER.pack(0, schema_id) + payload


def unframed(data: bytes) -> tuple[int, bytes]:
    """The id of the schema, and the value. Raises ValueError."""
    if len(data) < _HEADER.size or data[0] != 0:
        raise ValueError(
            f"{bytes(data[:8])!r} does not begin with a zero byte and the id of a schema: it was not written "
            "by a serializer of a schema registry"
        )
    return _HEADER.unpack_from(data)[1], data[_HEADER.size :]


def topic_name(topic: str, _record: str | None, is_key: bool) -> str:
    """`orders-value`: one type of record in a topic, Confluent's default."""
    return f"{topic}-{'key' if is_key else 'value'}"


def record_name(_topic: str, record: str | None, _is_key: bool) -> str:
    """`com.example.Order`: a type of record evolves alike in all topics."""
    return _named(record)


def topic_record_name(topic: str, record: str | None, _is_key: bool) -> str:
    """`orders-com.example.Order`: several types of records in a topic."""
    return f"{topic}-{_named(record)}"


def _named(record: str | None) -> str:
    if record is None:
        raise ValueError("the schema has no name, which this strategy makes the subject of: use the topic's")
    return record


STRATEGIES: Final[dict[str, SubjectStrategy]] = {
    "topic": topic_name,
    "record": record_name,
    "topic-record": topic_record_name,
}
