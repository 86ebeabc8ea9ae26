"""The records region of a batch (decompressed) to and from `Record`s."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.errors import DecodeError
from klamm.protocol.types import Buffer
from klamm.records._pure.varint import append_varint, read_varint, read_varlong
from klamm.records.layout import (
    MAX_INT32,
    MAX_INT64,
    MIN_INT64,
    MIN_RECORD_BYTES,
    Header,
    Record,
)


def decode_region(
    region: Buffer,
    count: int,
    base_offset: int,
    base_timestamp_ms: int,
    append_time_ms: int | None = None,
) -> list[Record]:
    """All `count` records of a region; `append_time_ms` replaces their own times when given.

    The region must hold exactly `count` records, each of its stated length: DecodeError otherwise.
    """
    buffer = bytes(region)
    end = len(buffer)
    if not 0 <= count <= end // MIN_RECORD_BYTES:
        raise DecodeError(f"{count} records cannot be in {end} bytes")
    records: list[Record] = []
    position = 0
    try:
        for _ in range(count):
            length, position = read_varint(buffer, position)
            body_end = position + length
            if length < 0 or body_end > end:
                raise DecodeError(f"a record of {length} bytes where {end - position} are left")
            timestamp_delta, position = read_varlong(buffer, position + 1)
            offset_delta, position = read_varint(buffer, position)
            key, position = _read_bytes(buffer, position, body_end)
            value, position = _read_bytes(buffer, position, body_end)
            header_count, position = read_varint(buffer, position)
            headers: tuple[Header, ...] = ()
            if header_count:
                headers, position = _read_headers(buffer, position, body_end, header_count)
            if position != body_end:
                raise DecodeError(f"a record ends {position - body_end:+d} bytes from its stated end")
            offset = base_offset + offset_delta
            if offset_delta < 0 or offset > MAX_INT64:
                raise DecodeError(f"offset delta {offset_delta} from base {base_offset}")
            if append_time_ms is None:
                timestamp_ms = _wrap_64(base_timestamp_ms + timestamp_delta)
            else:
                timestamp_ms = append_time_ms
            records.append(Record(offset, timestamp_ms, key, value, headers))
    except IndexError:
        raise DecodeError("the records end inside a record") from None
    if position != end:
        raise DecodeError(f"{end - position} bytes after the last of {count} records")
    return records


def _read_bytes(buffer: bytes, position: int, body_end: int) -> tuple[bytes | None, int]:
    length, position = read_varint(buffer, position)
    if length < 0:
        return None, position  # Kafka reads any negative length as null
    if length > body_end - position:
        raise DecodeError(f"a field of {length} bytes in a record with {body_end - position} left")
    return buffer[position : position + length], position + length


def _read_headers(buffer: bytes, position: int, body_end: int, count: int) -> tuple[tuple[Header, ...], int]:
    if not 0 <= count <= (body_end - position) // 2:
        raise DecodeError(f"{count} headers in {body_end - position} bytes")
    headers: list[Header] = []
    for _ in range(count):
        name, position = _read_bytes(buffer, position, body_end)
        if name is None:
            raise DecodeError("a header without a key")
        value, position = _read_bytes(buffer, position, body_end)
        headers.append((name.decode("utf-8", "replace"), value))  # Java replaces bad UTF-8 too
    return tuple(headers), position


def _wrap_64(value: int) -> int:
    """Java's long arithmetic: what a hostile delta overflows wraps around."""
    if MIN_INT64 <= value <= MAX_INT64:
        return value
    return ((value - MIN_INT64) & ((1 << 64) - 1)) + MIN_INT64


def encode_region(records: Sequence[Record], base_offset: int, base_timestamp_ms: int) -> bytearray:
    """Records one after the other, relative to a base offset and a base time."""
    out = bytearray()
    for offset, timestamp_ms, key, value, headers in records:
        offset_delta = offset - base_offset
        if not 0 <= offset_delta <= MAX_INT32:
            raise ValueError(f"offset {offset} does not fit a batch that starts at {base_offset}")
        if not MIN_INT64 <= timestamp_ms <= MAX_INT64:
            raise ValueError(f"timestamp {timestamp_ms} has more than 64 bits")
        named = [(name.encode(), header_value) for name, header_value in headers]
        out += encode_record(timestamp_ms - base_timestamp_ms, offset_delta, key, value, named)
    return out


def encode_record(
    timestamp_delta_ms: int,
    offset_delta: int,
    key: Buffer | None,
    value: Buffer | None,
    headers: Sequence[tuple[bytes, Buffer | None]],
) -> bytearray:
    """One record with its length in front."""
    body = bytearray(1)  # attributes: no bit of them is in use
    append_varint(body, _wrap_64(timestamp_delta_ms))
    append_varint(body, offset_delta)
    _append_bytes(body, key)
    _append_bytes(body, value)
    append_varint(body, len(headers))
    for name, header_value in headers:
        _append_bytes(body, name)
        _append_bytes(body, header_value)
    out = bytearray()
    append_varint(out, len(body))
    out += body
    return out


def _append_bytes(out: bytearray, field: Buffer | None) -> None:
    if field is None:
        out.append(1)  # -1, zig-zag
    else:
        append_varint(out, len(field))
        out += field
