"""The serializers of Java's client, by the names of their classes: for properties that are taken over."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from klamm.config import ConfigError

if TYPE_CHECKING:
    from klamm.client.serializers import Serde

PREFIX: Final = "org.apache.kafka.common.serialization."


class _Bytes:
    """Bytes as they are."""

    def serialize(self, _topic: str, value: Any) -> bytes:
        return bytes(memoryview(value))  # a number is refused, which bytes() takes for a length

    def deserialize(self, _topic: str, data: bytes) -> bytes:
        return bytes(data)


class _Text:
    """Text in UTF-8."""

    def serialize(self, _topic: str, value: str) -> bytes:
        return value.encode()

    def deserialize(self, _topic: str, data: bytes) -> str:
        return bytes(data).decode()


class _Uuid:
    """A UUID, written as text."""

    def serialize(self, _topic: str, value: UUID) -> bytes:
        return str(value).encode()

    def deserialize(self, _topic: str, data: bytes) -> UUID:
        return UUID(bytes(data).decode())


class _Fixed:
    """A number or a truth value of so many bytes, the highest first."""

    def __init__(self, kind: str, layout: str) -> None:
        self._kind = kind
        self._struct = struct.Struct(layout)

    def serialize(self, _topic: str, value: Any) -> bytes:
        try:
            return self._struct.pack(value)
        except struct.error as error:
            raise ValueError(f"{self._kind}Serializer does not take {value!r}: {error}") from None

    def deserialize(self, _topic: str, data: bytes) -> Any:
        if len(data) != self._struct.size:
            raise ValueError(
                f"{self._kind}Deserializer expects {self._struct.size} bytes, and there are {len(data)}"
            )
        return self._struct.unpack(data)[0]


_FIXED: Final = {"Short": ">h", "Integer": ">i", "Long": ">q", "Float": ">f", "Double": ">d", "Boolean": ">?"}
_MAKERS: Final[Mapping[str, Callable[[], Serde]]] = {
    "String": _Text,
    "ByteArray": _Bytes,
    "ByteBuffer": _Bytes,
    "Bytes": _Bytes,
    "UUID": _Uuid,
}


def java_serde(setting: str, name: str) -> Serde:
    """The serializer of a Java class, for a setting. Raises ConfigError."""
    given = name.removeprefix(PREFIX)
    wanted = "Deserializer" if setting.endswith("deserializer") else "Serializer"
    kind = given.removesuffix("Serializer").removesuffix("Deserializer")
    if kind not in _FIXED and kind not in _MAKERS:
        known = ", ".join(f"{each}{wanted}" for each in (*_MAKERS, *_FIXED))
        raise ConfigError(
            setting, f"{setting}={name} is not known: write one of {known}, or give a function or a Serde"
        )
    if given != kind + wanted:
        raise ConfigError(setting, f"{setting}={name}: expected {PREFIX}{kind}{wanted}")
    return _Fixed(kind, _FIXED[kind]) if kind in _FIXED else _MAKERS[kind]()
