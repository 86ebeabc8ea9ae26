"""A record as JSON, for the command line and the control port."""

from __future__ import annotations

import base64
from typing import Any

from klamm.client.consumer.records import ConsumerRecord


def record_as_json(record: ConsumerRecord[Any, Any]) -> dict[str, Any]:
    """Bytes that are not UTF-8 are in base64, under a name that says so. Headers only if there are some."""
    fact: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **_field("key", record.key),
        **_field("value", record.value),
    }
    if record.headers:
        fact["headers"] = [{"name": name, **_field("value", value)} for name, value in record.headers]
    return fact


def _field(name: str, content: bytes | None) -> dict[str, str | None]:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode()}
