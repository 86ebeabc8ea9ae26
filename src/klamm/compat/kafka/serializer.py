"""kafka-python's serializers, and how klamm's client calls one."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

Headers = list[tuple[str, bytes]]


class Serializer(ABC):
    """Makes bytes of keys or values."""

    @abstractmethod
    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        """The bytes of a value."""

    def close(self) -> None:  # noqa: B027  # nothing to close is the rule
        """Called when the producer is closed."""


class Deserializer(ABC):
    """Makes keys or values of bytes."""

    @abstractmethod
    def deserialize(self, topic: str, headers: Headers, data: bytes) -> Any:
        """The value of bytes."""

    def close(self) -> None:  # noqa: B027  # nothing to close is the rule
        """Called when the consumer is closed."""


class DefaultSerializer(Serializer, Deserializer):
    """Text; bytes are sent as they are."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        if isinstance(data, bytearray | memoryview):
            return bytes(data)
        return data if data is None or isinstance(data, bytes) else self._encoded(data)

    def _encoded(self, text: str) -> bytes:
        return text.encode(self.encoding)

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        return None if data is None else bytes(data).decode(self.encoding)


class JsonSerializer(DefaultSerializer):
    """JSON."""

    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        return None if data is None else self._encoded(json.dumps(data))

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        return None if data is None else json.loads(super().deserialize(topic, headers, data))


class SerializeWrapper(Serializer):
    """A function as a serializer."""

    def __init__(self, fn: Callable[[Any], bytes | None] | None) -> None:
        self.fn = fn

    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        return data if self.fn is None else self.fn(data)


class DeserializeWrapper(Deserializer):
    """A function as a deserializer."""

    def __init__(self, fn: Callable[[bytes], Any] | None) -> None:
        self.fn = fn

    def deserialize(self, topic: str, headers: Headers, data: bytes) -> Any:
        return data if self.fn is None else self.fn(data)


class _Serde:
    """A serializer or deserializer as klamm's client calls one."""

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs

    def serialize(self, topic: str, value: Any) -> Any:
        return self._theirs.serialize(topic, [], value)

    def deserialize(self, topic: str, data: bytes) -> Any:
        return self._theirs.deserialize(topic, [], data)


def own_serializer(given: Any, method: str) -> Any:
    """What klamm's client takes: a function, or an object whose method gets topic, headers and data.

    klamm serializes without looking at a record's headers: the method gets an empty list.
    """
    return _Serde(given) if hasattr(given, method) else given
