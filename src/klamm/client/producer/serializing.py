"""Keys, values and headers as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from klamm.client.producer.settings import Serializer
from klamm.client.serializers import WithTopic

HeaderValue = bytes | str | None
Headers = Iterable[tuple[str, HeaderValue]]


def pairs(headers: Headers | Mapping[str, HeaderValue]) -> tuple[tuple[str, bytes | None], ...]:
    """Headers as they are sent: text as UTF-8."""
    given = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((name, content.encode() if isinstance(content, str) else content) for name, content in given)


def serialized(topic: str, value: Any, serializer: Serializer | None, what: str) -> bytes | None:
    """A key or a value as it is sent."""
    if isinstance(serializer, WithTopic):
        value = serializer.function(topic, value)
    elif serializer is not None:
        value = serializer(value)
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"a {what} is bytes, text or None, not {type(value).__name__}; or set {what}_serializer")
