"""Records as JSON lines: what `klamm consume --json` prints, `klamm produce --json` takes."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from klamm.client.consumer.record_json import record_as_json
from klamm.client.consumer.records import ConsumerRecord
from klamm.printable import printable_json

FIELDS: Final = frozenset(
    {
        "topic",
        "partition",
        "offset",
        "timestamp_ms",
        "key",
        "key_base64",
        "value",
        "value_base64",
        "headers",
    }
)

Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to be sent."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def to_line(record: ConsumerRecord) -> str:
    """One record as a line of JSON."""
    return printable_json(json.dumps(record_as_json(record), ensure_ascii=False, separators=(",", ":")))


def from_line(line: str | bytes) -> NewRecord:
    """A record from a line of JSON. Raises ValueError."""
    try:
        fact = json.loads(line)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"invalid JSON: {error}") from None
    if not isinstance(fact, dict):
        raise ValueError('expected an object, as in {"key": "k", "value": "v"}')
    unknown = sorted(set(fact) - FIELDS)
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r}; there are {', '.join(sorted(FIELDS))}")
    return NewRecord(
        value=_content(fact, "value"),
        key=_content(fact, "key"),
        headers=_headers(fact.get("headers")),
        partition=_number(fact, "partition"),
        timestamp_ms=_number(fact, "timestamp_ms"),
    )


def _content(fact: Mapping[str, Any], name: str) -> bytes | None:
    coded = fact.get(f"{name}_base64")
    if coded is not None:
        try:
            return base64.b64decode(coded, validate=True)
        except (binascii.Error, TypeError) as error:
            raise ValueError(f"{name}_base64 is not base64: {error}") from None
    content = fact.get(name)
    if content is None:
        return None
    if isinstance(content, str):
        return content.encode()
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def _headers(given: Any) -> tuple[Header, ...]:
    if given is None:
        return ()
    if isinstance(given, dict):
        return tuple((name, _content({"value": value}, "value")) for name, value in given.items())
    if isinstance(given, list) and all(isinstance(item, dict) and "name" in item for item in given):
        return tuple((str(item["name"]), _content(item, "value")) for item in given)
    raise ValueError('headers are an object, or a list of {"name": ..., "value": ...}')


def _number(fact: Mapping[str, Any], name: str) -> int | None:
    number = fact.get(name)
    if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 0):
        raise ValueError(f"{name} is a number from 0 on, not {number!r}")
    return number
