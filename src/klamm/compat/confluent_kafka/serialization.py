"""confluent-kafka's serializers, and what it passes to one."""

from __future__ import annotations

import struct
from enum import Enum
from typing import Any

from klamm.compat.confluent_kafka.error import SerializationError
from klamm.compat.refusals import refuses

__getattr__ = refuses("confluent_kafka", "serialization")

__all__ = [
    "Deserializer",
    "DoubleDeserializer",
    "DoubleSerializer",
    "IntegerDeserializer",
    "IntegerSerializer",
    "MessageField",
    "SerializationContext",
    "SerializationError",
    "Serializer",
    "StringDeserializer",
    "StringSerializer",
]


class MessageField(str, Enum):  # noqa: UP042  # as theirs, a member is its text
    """Which part of a message is serialized."""

    NONE = "none"
    KEY = "key"
    VALUE = "value"

    def __str__(self) -> str:
        return str(self.value)


class SerializationContext:
    """Where the bytes go to, or come from."""

    def __init__(self, topic: str, field: MessageField, headers: Any = None) -> None:
        self.topic = topic
        self.field = field
        self.headers = headers


class Serializer:
    """Makes bytes of an object: override `__call__`."""

    def __call__(self, obj: Any, ctx: SerializationContext | None = None) -> bytes | None:
        raise NotImplementedError(f"{type(self).__name__} has no __call__(obj, ctx)")


class Deserializer:
    """Makes an object of bytes: override `__call__`."""

    def __call__(self, value: bytes | None, ctx: SerializationContext | None = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __call__(value, ctx)")


class _Packed:
    """A number of a fixed size, big-endian."""

    _form = ""

    def _pack(self, obj: Any) -> bytes | None:
        try:
            return None if obj is None else struct.pack(self._form, obj)
        except struct.error as error:
            raise SerializationError(f"{obj!r}: {error}") from error

    def _unpack(self, value: bytes | None) -> Any:
        try:
            return None if value is None else struct.unpack(self._form, value)[0]
        except struct.error as error:
            raise SerializationError(f"{value!r}: {error}") from error


class IntegerSerializer(_Packed, Serializer):
    """32 bits."""

    _form = ">i"

    def __call__(self, obj: int | None, ctx: SerializationContext | None = None) -> bytes | None:
        return self._pack(obj)


class IntegerDeserializer(_Packed, Deserializer):
    """32 bits."""

    _form = ">i"

    def __call__(self, value: bytes | None, ctx: SerializationContext | None = None) -> int | None:
        number: int | None = self._unpack(value)
        return number


class DoubleSerializer(_Packed, Serializer):
    """64 bits."""

    _form = ">d"

    def __call__(self, obj: float | None, ctx: SerializationContext | None = None) -> bytes | None:
        return self._pack(obj)


class DoubleDeserializer(_Packed, Deserializer):
    """64 bits."""

    _form = ">d"

    def __call__(self, value: bytes | None, ctx: SerializationContext | None = None) -> float | None:
        number: float | None = self._unpack(value)
        return number


class StringSerializer(Serializer):
    """Text in an encoding."""

    def __init__(self, codec: str = "utf_8") -> None:
        self.codec = codec

    def __call__(self, obj: str | None, ctx: SerializationContext | None = None) -> bytes | None:
        try:
            return None if obj is None else obj.encode(self.codec)
        except (AttributeError, UnicodeEncodeError) as error:
            raise SerializationError(f"{obj!r}: {error}") from error


class StringDeserializer(Deserializer):
    """Text in an encoding."""

    def __init__(self, codec: str = "utf_8") -> None:
        self.codec = codec

    def __call__(self, value: bytes | None, ctx: SerializationContext | None = None) -> str | None:
        try:
            return None if value is None else value.decode(self.codec)
        except UnicodeDecodeError as error:
            raise SerializationError(f"{value!r}: {error}") from error
