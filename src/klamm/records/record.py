"""Whole batches to and from records."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from klamm.protocol.errors import DecodeError
from klamm.protocol.types import Buffer
from klamm.records.batch import BatchHeader, TimestampType, TruncatedError, parse_header
from klamm.records.checksum import crc32c
from klamm.records.compression import Codec, compress, decompress
from klamm.records.core import decode_region, encode_region
from klamm.records.layout import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    KNOWN_ATTRIBUTES,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAX_INT32,
    RECORDS_AT,
    TRANSACTIONAL_BIT,
    Header,
    Record,
)

__all__ = [
    "MAX_DECOMPRESSED_BYTES",
    "Header",
    "Record",
    "decode_records",
    "encode_batch",
    "encode_region_into_batch",
    "recompress",
    "record_size_bound",
    "records_region",
]

MAX_DECOMPRESSED_BYTES: Final = 128 * 1024 * 1024
"""The default limit on a decompressed batch: 128 times Kafka's default for the largest batch."""

# length, attributes, timestamp delta, offset delta, key length, value length, header count at their longest
_RECORD_OVERHEAD_BYTES: Final = 5 + 1 + 10 + 5 + 5 + 5 + 5

# The two parts of `HEADER`: up to the checksum, and what it covers.
_START: Final = Struct(">qiibI")
_COVERED: Final = Struct(">hiqqqhii")


def records_region(
    batch: Buffer, header: BatchHeader, position: int = 0, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Buffer:
    """The records of a batch as bytes, decompressed."""
    batch_end = position + header.size_bytes
    if batch_end > len(batch):
        raise TruncatedError(f"a batch of {header.size_bytes} bytes where {len(batch) - position} are left")
    region = memoryview(batch)[position + RECORDS_AT : batch_end]
    if not header.codec or not region:
        return region
    return decompress(header.codec, region, max_bytes)


def decode_records(
    batch: Buffer, position: int = 0, *, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> list[Record]:
    """The records of the batch at a position, decompressed within a bound.

    Raises DecodeError (TooLarge, TruncatedError) when the bytes do not match the header. Does not check the
    checksum: most callers have done so already. Ignores bytes after the batch.
    """
    header = parse_header(batch, position)
    append_time_ms = None
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        append_time_ms = header.max_timestamp_ms
    return decode_region(
        records_region(batch, header, position, max_bytes),
        header.record_count,
        header.base_offset,
        header.base_timestamp_ms,
        append_time_ms,
    )


def encode_batch(
    records: Sequence[Record],
    *,
    codec: int = Codec.NONE,
    level: int | None = None,
    base_offset: int = 0,
    last_offset_delta: int | None = None,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    append_time_ms: int | None = None,
    delete_horizon_ms: int | None = None,
    max_timestamp_ms: int | None = None,
) -> bytes:
    """One batch of records, whose offsets are at or above `base_offset`.

    A compactor keeps `last_offset_delta` and `max_timestamp_ms` of the batch it rewrites, and sets the time
    (`delete_horizon_ms`) after which its tombstones may be removed. Without records the first two are
    required. `append_time_ms` makes it a LogAppendTime batch.
    """
    if control and codec != Codec.NONE:
        raise ValueError("control batches are never compressed")
    if records:
        base_timestamp_ms = records[0].timestamp_ms
        if max_timestamp_ms is None:
            if len(records) == 1:
                max_timestamp_ms = base_timestamp_ms
            else:
                max_timestamp_ms = max(record.timestamp_ms for record in records)
        if last_offset_delta is None:
            last_offset_delta = records[-1].offset - base_offset
    else:
        base_timestamp_ms = -1
    if last_offset_delta is None or max_timestamp_ms is None:
        raise ValueError("a batch without records requires last_offset_delta and max_timestamp_ms")
    attributes = transactional * TRANSACTIONAL_BIT | control * CONTROL_BIT
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON_BIT
        base_timestamp_ms = delete_horizon_ms
    if append_time_ms is not None:
        attributes |= LOG_APPEND_TIME_BIT
        max_timestamp_ms = append_time_ms
    region = encode_region(records, base_offset, base_timestamp_ms)
    return encode_region_into_batch(
        region,
        len(records),
        codec=codec,
        level=level,
        base_offset=base_offset,
        last_offset_delta=last_offset_delta,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        attributes=attributes,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max_timestamp_ms,
    )


def encode_region_into_batch(
    region: Buffer,
    record_count: int,
    *,
    codec: int,
    level: int | None = None,
    base_offset: int,
    last_offset_delta: int,
    leader_epoch: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    attributes: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
) -> bytes:
    """A batch of an encoded region of records; `attributes` without the codec."""
    if record_count:
        region = compress(codec, region, level)
    else:
        codec = Codec.NONE  # nothing to compress: the batch is only its header
    batch_length = HEADER_BYTES - LENGTH_OVERHEAD_BYTES + len(region)
    if batch_length > MAX_INT32 - LENGTH_OVERHEAD_BYTES:
        raise ValueError(f"a batch of {batch_length} bytes exceeds its length field")
    covered = _COVERED.pack(
        attributes | codec,
        last_offset_delta,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    checksum = crc32c(region, crc32c(covered))
    return b"".join((_START.pack(base_offset, batch_length, leader_epoch, MAGIC, checksum), covered, region))


def record_size_bound(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
) -> int:
    """The maximal uncompressed size of a record, for a producer that fills a batch."""
    size_bytes = _RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, header_value in headers:
        # A character takes at most four bytes in UTF-8.
        size_bytes += 10 + 4 * len(name) + len(header_value or b"")
    return size_bytes


def recompress(
    batch: Buffer, codec: int, *, level: int | None = None, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> bytes:
    """The same batch in another codec; offsets, timestamps, producer and sequence stay."""
    header = parse_header(batch)
    if header.is_control:
        raise DecodeError("control batches are never compressed")
    return encode_region_into_batch(
        records_region(batch, header, 0, max_bytes),
        header.record_count,
        codec=codec,
        level=level,
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        attributes=header.attributes & KNOWN_ATTRIBUTES & ~(header.codec | DELETE_HORIZON_BIT),
        base_timestamp_ms=header.base_timestamp_ms,
        max_timestamp_ms=header.max_timestamp_ms,
    )
