"""CRC-32C and murmur2 as they are defined. Slow, and easy to compare with the definitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from klamm.protocol.types import Buffer

_CASTAGNOLI: Final = 0x82F63B78  # the polynomial, bits reversed


def _crc_row(index: int) -> int:
    for _ in range(8):
        index = (index >> 1) ^ (_CASTAGNOLI if index & 1 else 0)
    return index


_CRC_TABLE: Final = tuple(_crc_row(index) for index in range(256))

_M: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C
_MASK_32: Final = (1 << 32) - 1


def crc32c(data: Buffer, value: int = 0) -> int:
    """CRC-32C (Castagnoli), unsigned; `value` continues an earlier checksum."""
    crc = value ^ _MASK_32
    for byte in memoryview(data):
        crc = (crc >> 8) ^ _CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ _MASK_32


def _quickest_crc32c() -> Callable[[Buffer, int], int]:
    """Ten megabytes take a second in pure Python, so a compiled package does it where there is one."""
    try:
        from crc32c import crc32c as quick  # noqa: PLC0415 - it may be absent
    except ImportError:
        return crc32c
    return quick


def __getattr__(name: str) -> Callable[[Buffer, int], int]:
    """Import `quick_crc32c` on first use: its package is slow to import."""
    if name == "quick_crc32c":
        globals()[name] = found = _quickest_crc32c()
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def murmur2(key: Buffer) -> int:
    """The hash Kafka's clients choose partitions with, signed like Java's int."""
    buffer = bytes(key)
    length = len(buffer)
    whole = length - length % 4
    h = (_SEED ^ length) & _MASK_32
    for at in range(0, whole, 4):
        k = (int.from_bytes(buffer[at : at + 4], "little") * _M) & _MASK_32
        k ^= k >> 24
        h = ((h * _M) & _MASK_32) ^ ((k * _M) & _MASK_32)
    if whole != length:
        h = ((h ^ int.from_bytes(buffer[whole:], "little")) * _M) & _MASK_32
    h ^= h >> 13
    h = (h * _M) & _MASK_32
    h ^= h >> 15
    return h - (1 << 32) if h >> 31 else h
