"""Zig-zag varints, as records carry them; five bytes at most for 32 bits, ten for 64."""

from __future__ import annotations

from klamm.protocol.errors import DecodeError

_MASK_32 = (1 << 32) - 1
_MASK_64 = (1 << 64) - 1


def read_varint(buffer: bytes, position: int) -> tuple[int, int]:
    """A 32-bit varint and the position after it. IndexError when the buffer ends inside it."""
    byte = buffer[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    raw = byte & 0x7F
    for shift in (7, 14, 21, 28):
        position += 1
        byte = buffer[position]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= _MASK_32  # Java drops what does not fit
            return (raw >> 1) ^ -(raw & 1), position + 1
    raise DecodeError("a varint of more than five bytes")


def read_varlong(buffer: bytes, position: int) -> tuple[int, int]:
    """A 64-bit varint and the position after it. IndexError when the buffer ends inside it."""
    byte = buffer[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    raw = byte & 0x7F
    for shift in range(7, 70, 7):
        position += 1
        byte = buffer[position]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= _MASK_64
            return (raw >> 1) ^ -(raw & 1), position + 1
    raise DecodeError("a varlong of more than ten bytes")


def append_varint(out: bytearray, value: int) -> None:
    """Append a value of at most 64 bits; a value that wrapped around them is cut to them."""
    raw = ((value << 1) ^ (value >> 63)) & _MASK_64
    while raw > 0x7F:
        out.append((raw & 0x7F) | 0x80)
        raw >>= 7
    out.append(raw)
