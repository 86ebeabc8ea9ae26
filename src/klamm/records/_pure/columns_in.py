"""Records to columns."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from klamm.records._pure.region import decode_region
from klamm.records.arrow import BinaryColumn, Columns, HeadersColumn, Region, Want
from klamm.records.layout import MAX_INT32, Header, Record


def decode_columns(
    regions: Sequence[Region],
    wanted: int,
    first_offset: int,
    until_offset: int,
    max_column_bytes: int = MAX_INT32,
) -> Columns:
    """The records from `first_offset` to below `until_offset`, as the columns `wanted`.

    Every record is checked as `decode_region` does it, also those outside the range: DecodeError.
    ValueError when a column would need more bytes than `max_column_bytes` or than its offsets can count.
    """
    check_region_bytes(regions, max_column_bytes)
    rows: list[Record] = []
    types: list[int] = []
    for region in regions:
        kept = [r for r in decode_region(*region) if first_offset <= r.offset < until_offset]
        rows += kept
        types += [0 if region.append_time_ms is None else 1] * len(kept)
    return Columns(
        row_count=len(rows),
        offset=packed("q", [r.offset for r in rows]) if wanted & Want.OFFSET else None,
        timestamp_ms=packed("q", [r.timestamp_ms for r in rows]) if wanted & Want.TIMESTAMP else None,
        timestamp_type=packed("i", types) if wanted & Want.TIMESTAMP_TYPE else None,
        key=binary_column([r.key for r in rows]) if wanted & Want.KEY else None,
        value=binary_column([r.value for r in rows]) if wanted & Want.VALUE else None,
        headers=_headers([r.headers for r in rows], max_column_bytes) if wanted & Want.HEADERS else None,
    )


def check_region_bytes(regions: Sequence[Region], max_column_bytes: int) -> None:
    """Reject regions whose bytes (of the buffers, not items of a sequence) do not fit one column."""
    check_column_bytes(sum(memoryview(region.data).nbytes for region in regions), max_column_bytes)


def check_column_bytes(size: int, max_column_bytes: int) -> None:
    """Offsets in a column are 32 bits wide, whatever the caller allows."""
    if size > min(max_column_bytes, MAX_INT32):
        raise ValueError(f"{size} bytes do not fit one column: decode fewer regions at a time")


def packed(typecode: str, numbers: Sequence[int]) -> bytearray:
    """Numbers side by side in the machine's own byte order."""
    return bytearray(array(typecode, numbers).tobytes())


def validity_bits(present: Sequence[bool]) -> tuple[int, bytearray | None]:
    """How many are absent, and the bitmap of those that are there; None when all are."""
    null_count = present.count(False)
    if not null_count:
        return 0, None
    bits = bytearray((len(present) + 7) // 8)
    for row, is_there in enumerate(present):
        bits[row >> 3] |= is_there << (row & 7)
    return null_count, bits


def _offsets(lengths: Sequence[int]) -> bytearray:
    total = 0
    offsets = [0]
    for length in lengths:
        total += length
        offsets.append(total)
    return packed("i", offsets)


def binary_column(fields: Sequence[bytes | None]) -> BinaryColumn:
    """Fields in one run of bytes."""
    null_count, validity = validity_bits([field is not None for field in fields])
    present = [field or b"" for field in fields]
    return BinaryColumn(
        null_count, validity, _offsets([len(field) for field in present]), bytearray(b"".join(present))
    )


def text_column(fields: Sequence[bytes | None], max_column_bytes: int) -> BinaryColumn:
    """As `binary_column`, with U+FFFD for every byte that is not UTF-8: Arrow's strings cannot hold it."""
    texts = [None if field is None else field.decode("utf-8", "replace").encode() for field in fields]
    check_column_bytes(sum(len(text) for text in texts if text), max_column_bytes)
    return binary_column(texts)


def _headers(rows: Sequence[tuple[Header, ...]], max_column_bytes: int) -> HeadersColumn:
    null_count, validity = validity_bits([bool(headers) for headers in rows])
    every = [header for headers in rows for header in headers]
    return HeadersColumn(
        null_count,
        validity,
        _offsets([len(headers) for headers in rows]),
        len(every),
        text_column([name.encode() for name, _ in every], max_column_bytes),
        binary_column([value for _, value in every]),
    )


def new_buffer(size: int) -> bytearray:
    """Bytes to be written over: what they are until then is not defined."""
    return bytearray(size)
