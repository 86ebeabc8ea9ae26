"""The partitions of Produce requests and responses, as codecs read and write them, in compiled code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final

from klamm.protocol.codec.decoding import long_uvarint
from klamm.protocol.errors import DecodeError
from klamm.protocol.messages.produce import PartitionProduceData, PartitionProduceResponse
from klamm.protocol.types import Buffer

_INT32: Final = Struct(">i")
# Index, error code, base offset, append time and log start; no record errors, no message, no tags.
_PLAIN: Final = Struct(">ihqqqBBB")


def read_batches(
    is_flexible: bool, buffer: bytes, position: int, count: int
) -> tuple[list[PartitionProduceData], int]:
    """Decode `count` partitions; returns them and the position after them.

    Raises DecodeError, and struct.error or IndexError where the buffer ends too early.
    """
    partitions = []
    whole = memoryview(buffer)
    end = len(buffer)
    for _ in range(count):
        index = _INT32.unpack_from(buffer, position)[0]
        position += 4
        if is_flexible:
            size = buffer[position]
            position += 1
            if size > 127:
                following = buffer[position]
                if following < 128:  # nearly always
                    size = (size & 127) | following << 7
                    position += 1
                else:
                    size, position = long_uvarint(buffer, position, size)
            size -= 1
        else:
            size = _INT32.unpack_from(buffer, position)[0]
            position += 4
        records = None
        if size >= 0:
            stop = position + size
            if stop > end:
                raise DecodeError("records ends beyond the message")
            records = whole[position:stop]
            position = stop
        elif size < -1:
            raise DecodeError(f"records has length {size}")
        if is_flexible:
            tags = buffer[position]
            position += 1
            if tags:
                position = _skip_tags(buffer, position, tags)
        partitions.append(PartitionProduceData(index, records))
    return partitions, position


def _skip_tags(buffer: bytes, position: int, count: int) -> int:
    """The position after tags, none of which is known."""
    if count > 127:
        count, position = long_uvarint(buffer, position, count)
    if count > (len(buffer) - position) // 2:
        raise DecodeError(f"{count} tags")
    for _ in range(count):
        for is_size in (False, True):
            value = buffer[position]
            position += 1
            if value > 127:
                value, position = long_uvarint(buffer, position, value)
            if is_size:
                position += value
                if position > len(buffer):
                    raise DecodeError("a tag ends beyond the message")
    return position


def write_produced(
    encode: Callable[[Any], list[Buffer]], responses: Sequence[PartitionProduceResponse]
) -> bytes:
    """Encode partitions in a version that has all fields; `encode` does so for one with explanations."""
    parts: list[Buffer] = []
    for each in responses:
        if each.record_errors or each.error_message is not None or each.current_leader is not None:
            parts += encode(each)
        else:
            parts.append(
                _PLAIN.pack(
                    each.index,
                    each.error_code,
                    each.base_offset,
                    each.log_append_time_ms,
                    each.log_start_offset,
                    1,
                    0,
                    0,
                )
            )
    return b"".join(parts)
