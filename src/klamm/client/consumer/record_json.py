"""A record as JSON, for the command line and the control port."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from klamm.client.consumer.records import ConsumerRecord


def record_as_json(record: ConsumerRecord[Any, Any]) -> dict[str, Any]:
    """The fields of a record; headers only if there are some."""
    fact: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **text_or_base64("key", record.key),
        **text_or_base64("value", record.value),
    }
    if record.headers:
        fact["headers"] = [{"name": name, **text_or_base64("value", value)} for name, value in record.headers]
    return fact


def text_or_base64(name: str, content: bytes | None) -> dict[str, str | None]:
    """Text where it is UTF-8; else base64, under a name that says so."""
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode()}
