"""Columns to records, grouped by partition."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from struct import error as struct_error
from struct import unpack_from
from typing import NamedTuple

from klamm.protocol.types import Buffer
from klamm.records._pure.hashes import murmur2
from klamm.records._pure.region import encode_record
from klamm.records.arrow import BinaryInput, EncodedRegion, FixedInput, HeadersInput
from klamm.records.layout import MAX_INT32


class _Row(NamedTuple):
    """A row to be encoded; header names stay bytes."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]]

    def encoded(self, index: int, base_timestamp_ms: int) -> bytearray:
        delta_ms = self.timestamp_ms - base_timestamp_ms
        return encode_record(delta_ms, index, self.key, self.value, self.headers)


def partition_rows(
    row_count: int,
    key: BinaryInput | None,
    given: FixedInput | None,
    partition_count: int,
    keyless_partition: int,
) -> bytearray:
    """The partition of every row, int32: the given one, else by the key's hash, else the keyless one."""
    if partition_count < 1 or not 0 <= keyless_partition < partition_count:
        raise ValueError(f"partition {keyless_partition} of {partition_count}")
    chosen = array("i")
    for row in range(row_count):
        partition = keyless_partition
        if given is not None and _is_valid(given.validity, given.first_row + row):
            partition = _number(given.values, "i", 4, given.first_row + row)
            if not 0 <= partition < partition_count:
                raise ValueError(f"row {row} has partition {partition}, the topic has {partition_count}")
        elif key is not None:
            field = _field(key, row)
            if field is not None:
                partition = (murmur2(field) & 0x7FFFFFFF) % partition_count
        chosen.append(partition)
    return bytearray(chosen.tobytes())


def encode_columns(
    row_count: int,
    partitions: Buffer,
    key: BinaryInput | None,
    value: BinaryInput | None,
    headers: HeadersInput | None,
    timestamp_ms: FixedInput | None,
    default_timestamp_ms: int,
    max_region_bytes: int,
) -> list[EncodedRegion]:
    """Rows as records, by partition (int32 each, not negative) and in row order within it.

    A region ends before the record that would make it larger than `max_region_bytes`; a record larger
    than that has its own region. A row without a time gets `default_timestamp_ms`. ValueError when
    the buffers are shorter than the rows need.
    """
    by_partition: dict[int, list[_Row]] = {}
    for row in range(row_count):
        partition = _number(partitions, "i", 4, row)
        if partition < 0:
            raise ValueError(f"row {row} has partition {partition}")
        rows = by_partition.setdefault(partition, [])
        time_ms = default_timestamp_ms
        if timestamp_ms is not None and _is_valid(timestamp_ms.validity, timestamp_ms.first_row + row):
            time_ms = _number(timestamp_ms.values, "q", 8, timestamp_ms.first_row + row)
        rows.append(
            _Row(
                time_ms,
                _field(key, row) if key is not None else None,
                _field(value, row) if value is not None else None,
                _row_headers(headers, row) if headers is not None else [],
            )
        )
    regions: list[EncodedRegion] = []
    for partition in sorted(by_partition):
        regions += _cut(partition, by_partition[partition], max_region_bytes)
    return regions


def _cut(partition: int, rows: Sequence[_Row], max_region_bytes: int) -> list[EncodedRegion]:
    regions: list[EncodedRegion] = []
    data = bytearray()
    count = base_ms = max_ms = 0
    for row in rows:
        encoded = row.encoded(count, base_ms if count else row.timestamp_ms)
        if count and len(data) + len(encoded) > max_region_bytes:
            regions.append(EncodedRegion(partition, data, count, base_ms, max_ms))
            data = bytearray()
            count = 0
            encoded = row.encoded(0, row.timestamp_ms)
        if not count:
            base_ms = max_ms = row.timestamp_ms
        max_ms = max(max_ms, row.timestamp_ms)
        data += encoded
        count += 1
    if count:
        regions.append(EncodedRegion(partition, data, count, base_ms, max_ms))
    return regions


def _row_headers(headers: HeadersInput, row: int) -> list[tuple[bytes, bytes | None]]:
    at = headers.first_row + row
    if not _is_valid(headers.validity, at):
        return []
    start, end = _range(headers.offsets, at)
    every: list[tuple[bytes, bytes | None]] = []
    for index in range(start, end):
        name = _field(headers.names, index)
        if name is None:
            raise ValueError(f"row {row} has a header without a key")
        every.append((name, _field(headers.values, index)))
    return every


def _field(column: BinaryInput, row: int) -> bytes | None:
    at = column.first_row + row
    if not _is_valid(column.validity, at):
        return None
    start, end = _range(column.offsets, at)
    values = column.values if column.values is not None else b""
    if end > len(values):
        raise ValueError(f"row {row} ends at byte {end} of {len(values)}")
    return bytes(memoryview(values)[start:end])


def _range(offsets: Buffer, at: int) -> tuple[int, int]:
    start, end = _number(offsets, "i", 4, at), _number(offsets, "i", 4, at + 1)
    if not 0 <= start <= end <= MAX_INT32:
        raise ValueError(f"offsets {start} to {end}")
    return start, end


def _number(buffer: Buffer, code: str, width: int, at: int) -> int:
    if at < 0:
        raise ValueError(f"element {at}")
    try:
        (number,) = unpack_from("=" + code, buffer, at * width)
    except (struct_error, OverflowError):
        raise ValueError(f"no element {at} in {len(buffer)} bytes") from None
    assert isinstance(number, int)
    return number


def _is_valid(validity: Buffer | None, at: int) -> bool:
    if validity is None:
        return True
    if not 0 <= at >> 3 < len(validity):
        raise ValueError(f"no bit {at} in {len(validity)} bytes")
    return bool(memoryview(validity)[at >> 3] >> (at & 7) & 1)
