"""The codecs of record batches, with a limit on the decompressed size.

A few kilobytes can expand to gigabytes: every codec writes into a buffer that grows step by step up to the
limit.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from types import ModuleType
from typing import Any, Final

from klamm.protocol.errors import DecodeError
from klamm.protocol.types import Buffer

_UINT32: Final = Struct(">I")

# Java's snappy stream: magic, version, lowest version that can read it; then blocks, each with its length.
_XERIAL_MAGIC: Final = bytes.fromhex("82534e4150505900")
_XERIAL_HEADER: Final = _XERIAL_MAGIC + _UINT32.pack(1) + _UINT32.pack(1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024

# An lz4 frame as Kafka's Java client opens it: independent blocks of 64 KiB, no checksums but the one of
# this header. Kafka reads no other kind of block, and cramjam's own frames link theirs.
_LZ4_HEADER: Final = bytes.fromhex("04224d18604082")
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_STORED_BIT: Final = 1 << 31
_LZ4_END: Final = bytes(4)

_FIRST_GUESS: Final = 4  # times the compressed size: what plain data expands to
_GROWTH: Final = 4
_MIN_OUTPUT_BYTES: Final = 4096


def _cramjam() -> ModuleType:
    import cramjam  # noqa: PLC0415 -- takes a millisecond, which a broker that starts does not spend

    return cramjam


class Codec(IntEnum):
    """The compression codec's number in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TooLarge(DecodeError):  # noqa: N818 - reads as a verdict where it is raised and caught
    """The decompressed size exceeds the limit."""


def compress(codec: int, data: Buffer, level: int | None = None) -> Buffer:
    """Compress as Kafka's Java client does; levels are those of Kafka's `compression.*.level`."""
    match codec:
        case Codec.NONE:
            return data
        case Codec.GZIP:
            # Java's "default" is -1, which is 6 for zlib.
            return bytes(_cramjam().gzip.compress(data, 6 if level in (None, -1) else level))
        case Codec.SNAPPY:
            return _compress_snappy(data)
        case Codec.LZ4:
            return _compress_lz4(data, level)
        case Codec.ZSTD:
            return bytes(_cramjam().zstd.compress(data, 3 if level is None else level))
        case _:
            raise ValueError(f"unknown codec {codec}")


def decompress(codec: int, data: Buffer, max_bytes: int) -> Buffer:
    """The decompressed bytes, at most `max_bytes`: else TooLarge. DecodeError when the data is invalid."""
    match codec:
        case Codec.NONE:
            if len(data) > max_bytes:
                raise TooLarge(f"{len(data)} bytes, {max_bytes} are allowed")
            return data
        case Codec.GZIP:
            return _grow(_cramjam().gzip.decompress_into, data, max_bytes)
        case Codec.SNAPPY:
            return _decompress_snappy(data, max_bytes)
        case Codec.LZ4:
            return _grow(_cramjam().lz4.decompress_into, data, max_bytes)
        case Codec.ZSTD:
            return _grow(_cramjam().zstd.decompress_into, data, max_bytes)
        case _:
            raise DecodeError(f"unknown codec {codec}")


def _grow(decompress_into: Callable[[Any, Any], int], data: Buffer, max_bytes: int) -> bytearray:
    """Decompress into a small buffer, then into larger ones, until it fits or the limit is reached."""
    size_bytes = min(max(len(data) * _FIRST_GUESS, _MIN_OUTPUT_BYTES), max_bytes)
    while True:
        out = bytearray(size_bytes)
        try:
            length = decompress_into(data, out)
        except _cramjam().DecompressionError as error:
            if "whole buffer" not in str(error):
                raise DecodeError(f"invalid compressed data: {error}") from None
        else:
            del out[length:]
            return out
        if size_bytes >= max_bytes:
            raise TooLarge(f"{len(data)} compressed bytes hold more than the {max_bytes} allowed")
        size_bytes = min(size_bytes * _GROWTH, max_bytes)


def _compress_snappy(data: Buffer) -> bytes:
    parts = [_XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(_cramjam().snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_UINT32.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, max_bytes: int) -> bytearray:
    """Java writes framed blocks; other clients may write one raw block."""
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _snappy_block(view, max_bytes)
    position = len(_XERIAL_HEADER)
    if len(view) < position:
        raise DecodeError("truncated snappy stream: it ends in its header")
    out = bytearray()
    while position < len(view):
        if len(view) - position < 4:
            raise DecodeError("truncated snappy stream: it ends in a block's length")
        (length,) = _UINT32.unpack_from(view, position)
        position += 4
        if length > len(view) - position:
            raise DecodeError(f"a snappy block of {length} bytes where {len(view) - position} are left")
        out += _snappy_block(view[position : position + length], max_bytes - len(out))
        position += length
    return out


def _snappy_block(block: memoryview, max_bytes: int) -> bytearray:
    try:
        length = _cramjam().snappy.decompress_raw_len(block)
        if length > max_bytes:
            raise TooLarge(f"a snappy block of {length} bytes, {max_bytes} are allowed")
        if length > _snappy_limit(len(block)):
            raise DecodeError(f"a snappy block of {len(block)} bytes cannot hold {length}")
        out = bytearray(length)
        _cramjam().snappy.decompress_raw_into(block, out)
    except _cramjam().DecompressionError as error:
        raise DecodeError(f"invalid compressed data: {error}") from None
    return out


def _snappy_limit(compressed_bytes: int) -> int:
    """More than any raw block of this size can hold: its best element makes 64 bytes out of 3."""
    return compressed_bytes * 64


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    options: dict[str, Any] = {"store_size": False}
    if level is not None:
        options |= {"mode": "high_compression", "compression": level}
    parts = [_LZ4_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), _LZ4_BLOCK_BYTES):
        plain = view[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(_cramjam().lz4.compress_block(plain, **options))
        length = len(block)
        if length >= len(plain):
            block = bytes(plain)
            length = len(plain) | _LZ4_STORED_BIT
        parts += (length.to_bytes(4, "little"), block)
    parts.append(_LZ4_END)
    return b"".join(parts)
