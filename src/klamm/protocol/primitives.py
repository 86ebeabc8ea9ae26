"""Reading and writing primitive types, for structures without a schema such as internal records."""

from __future__ import annotations

import struct
from typing import Final, TypeVar

from klamm.protocol.codec.encoding import uvarint
from klamm.protocol.errors import DecodeError

_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")

T = TypeVar("T")


class Reader:
    """A position in a buffer; every read is checked against what is left."""

    __slots__ = ("_buffer", "position")

    def __init__(self, buffer: bytes, position: int = 0) -> None:
        self._buffer = buffer
        self.position = position

    @property
    def remaining(self) -> int:
        return len(self._buffer) - self.position

    def raw(self, length: int) -> bytes:
        start = self.position
        stop = start + length
        if length < 0 or stop > len(self._buffer):
            raise self._short(length)
        self.position = stop
        return bytes(self._buffer[start:stop])

    def int8(self) -> int:
        return self._fixed(_INT8)

    def int16(self) -> int:
        return self._fixed(_INT16)

    def int32(self) -> int:
        return self._fixed(_INT32)

    def int64(self) -> int:
        return self._fixed(_INT64)

    def _fixed(self, kind: struct.Struct) -> int:
        start = self.position
        stop = start + kind.size
        if stop > len(self._buffer):
            raise self._short(kind.size)
        self.position = stop
        value: int = kind.unpack_from(self._buffer, start)[0]
        return value

    def _short(self, length: int) -> DecodeError:
        return DecodeError(f"{length} bytes wanted, {self.remaining} left")

    def uvarint(self) -> int:
        buffer, position = self._buffer, self.position
        value = 0
        for shift in (0, 7, 14, 21, 28):
            if position >= len(buffer):
                raise self._short(1)
            byte = buffer[position]
            position += 1
            if byte < 0x80:
                self.position = position
                return value | byte << shift
            value |= (byte & 0x7F) << shift
        raise DecodeError("varint of more than five bytes")

    def nullable_string(self) -> str | None:
        return self._text(self.int16())

    def string(self) -> str:
        return _present(self.nullable_string())

    def compact_nullable_string(self) -> str | None:
        return self._text(self.uvarint() - 1)

    def compact_string(self) -> str:
        return _present(self.compact_nullable_string())

    def nullable_bytes(self) -> bytes | None:
        return self._bytes(self.int32())

    def byte_string(self) -> bytes:
        return _present(self.nullable_bytes())

    def compact_bytes(self) -> bytes:
        return _present(self._bytes(self.uvarint() - 1))

    def array_length(self, smallest_element: int = 1) -> int:
        return self._count(self.int32(), smallest_element)

    def compact_array_length(self, smallest_element: int = 1) -> int:
        return self._count(self.uvarint() - 1, smallest_element)

    def tags(self) -> dict[int, bytes]:
        """A tag section as raw values by tag."""
        count = self.uvarint()
        if count > self.remaining // 2:
            raise DecodeError(f"{count} tags in {self.remaining} bytes")
        found = {}
        for _ in range(count):
            tag = self.uvarint()
            found[tag] = self.raw(self.uvarint())
        return found

    def _text(self, length: int) -> str | None:
        try:
            return None if length == -1 else self.raw(length).decode()
        except UnicodeDecodeError as error:
            raise DecodeError(str(error)) from error

    def _bytes(self, length: int) -> bytes | None:
        return None if length == -1 else self.raw(length)

    def _count(self, count: int, smallest_element: int) -> int:
        if count < 0 or count > self.remaining // smallest_element:
            raise DecodeError(f"{count} elements in {self.remaining} bytes")
        return count


def _present(value: T | None) -> T:
    if value is None:
        raise DecodeError("null where a value is required")
    return value


class Writer:
    """Collects what is written; `getvalue` returns it."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def getvalue(self) -> bytes:
        return b"".join(self._parts)

    def raw(self, value: bytes) -> Writer:
        self._parts.append(value)
        return self

    def int8(self, value: int) -> Writer:
        return self.raw(value.to_bytes(1, "big", signed=True))

    def int16(self, value: int) -> Writer:
        return self.raw(_INT16.pack(value))

    def int32(self, value: int) -> Writer:
        return self.raw(_INT32.pack(value))

    def int64(self, value: int) -> Writer:
        return self.raw(_INT64.pack(value))

    def uvarint(self, value: int) -> Writer:
        return self.raw(uvarint(value))

    def string(self, value: str | None) -> Writer:
        if value is None:
            return self.int16(-1)
        encoded = value.encode()
        return self.int16(len(encoded)).raw(encoded)

    def compact_string(self, value: str | None) -> Writer:
        if value is None:
            return self.uvarint(0)
        encoded = value.encode()
        return self.uvarint(len(encoded) + 1).raw(encoded)

    def byte_string(self, value: bytes | None) -> Writer:
        return self.int32(-1) if value is None else self.int32(len(value)).raw(value)

    def compact_bytes(self, value: bytes | None) -> Writer:
        return self.uvarint(0) if value is None else self.uvarint(len(value) + 1).raw(value)
