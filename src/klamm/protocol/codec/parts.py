"""Strings and tags of flexible versions, which nearly every message has: what all decoders call."""

from __future__ import annotations

from klamm.protocol.codec.layout import MAX_STRING_BYTES
from klamm.protocol.errors import DecodeError
from klamm.protocol.types import Buffer


def compact_string(buffer: bytes, position: int, name: str) -> tuple[str, int]:
    """A string and the position after it. IndexError when its length is not there."""
    length = buffer[position]
    position += 1
    if length > 127:
        length, position = long_length(buffer, position, length)
    if not length:
        raise DecodeError(f"{name} has length -1")
    end = position + length - 1
    if end > len(buffer):
        raise DecodeError(f"{name} ends beyond the message")
    return buffer[position:end].decode(), end


def compact_string_or_null(buffer: bytes, position: int, name: str) -> tuple[str | None, int]:
    """As `compact_string`; length 0 is null."""
    if not buffer[position]:
        return None, position + 1
    return compact_string(buffer, position, name)


def long_length(buffer: bytes, position: int, first: int) -> tuple[int, int]:
    """The length of a string, plus one, if it does not fit into its first byte."""
    length, position = long_uvarint(buffer, position, first)
    if length > MAX_STRING_BYTES + 1:
        raise DecodeError(f"a string of {length - 1} bytes")
    return length, position


def long_uvarint(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte is not its last."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise DecodeError("varint of more than five bytes")


def uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned varint and the position after it."""
    first = buffer[position]
    return long_uvarint(buffer, position + 1, first) if first > 127 else (first, position + 1)


def skip_tags(buffer: Buffer, position: int) -> int:
    """The position after a tag section."""
    count, position = uvarint(buffer, position)
    if count > (len(buffer) - position) // 2:
        raise DecodeError(f"{count} tags in {len(buffer) - position} bytes")
    for _ in range(count):
        _, position = uvarint(buffer, position)
        size, position = uvarint(buffer, position)
        position += size
        if position > len(buffer):
            raise DecodeError("a tag ends beyond the message")
    return position
