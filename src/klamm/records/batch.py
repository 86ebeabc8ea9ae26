"""Record batches as opaque bytes: parsing the header, checking the checksum, setting what a broker sets."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from klamm.protocol.types import Buffer
from klamm.records.core import crc32c, parse_header
from klamm.records.layout import (
    ATTRIBUTES_AT,
    BASE_OFFSET_AT,
    BASE_SEQUENCE_AT,
    BASE_TIMESTAMP_AT,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_AT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    KNOWN_ATTRIBUTES,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    LENGTH_AT,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    MIN_BATCH_LENGTH,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT,
    RECORD_COUNT_AT,
    RECORDS_AT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    OldFormatError,
    TimestampType,
    TruncatedError,
)

__all__ = [
    "ATTRIBUTES_AT",
    "BASE_OFFSET_AT",
    "BASE_SEQUENCE_AT",
    "BASE_TIMESTAMP_AT",
    "CODEC_MASK",
    "CONTROL_BIT",
    "CRC_AT",
    "DELETE_HORIZON_BIT",
    "HEADER_BYTES",
    "LAST_OFFSET_DELTA_AT",
    "LEADER_EPOCH_AT",
    "LENGTH_AT",
    "LENGTH_OVERHEAD_BYTES",
    "LOG_APPEND_TIME_BIT",
    "MAGIC",
    "MAGIC_AT",
    "MAX_TIMESTAMP_AT",
    "MIN_BATCH_LENGTH",
    "PRODUCER_EPOCH_AT",
    "PRODUCER_ID_AT",
    "RECORDS_AT",
    "RECORD_COUNT_AT",
    "TRANSACTIONAL_BIT",
    "BatchHeader",
    "OldFormatError",
    "TimestampType",
    "TruncatedError",
    "correct_max_timestamp",
    "crc_is_valid",
    "iter_headers",
    "parse_header",
    "reseal",
    "set_append_time",
    "stamp",
]

_INT64: Final = Struct(">q")
_INT32: Final = Struct(">i")
_INT16: Final = Struct(">h")
_UINT32: Final = Struct(">I")


def iter_headers(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of every whole batch.

    An incomplete batch at the end is not an error: a fetch may end in the middle of one. Bytes that are
    not a batch raise DecodeError when they are reached.
    """
    end = len(buffer)
    while end - position >= HEADER_BYTES:
        header = parse_header(buffer, position)
        next_position = position + header.batch_length + LENGTH_OVERHEAD_BYTES
        if next_position > end:
            return
        yield position, header
        position = next_position


def crc_is_valid(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the batch is complete and matches the checksum in its header."""
    batch_end = position + header.batch_length + LENGTH_OVERHEAD_BYTES
    if batch_end > len(buffer):
        return False
    return crc32c(memoryview(buffer)[position + ATTRIBUTES_AT : batch_end]) == header.crc


def stamp(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Set base offset and leader epoch. Both fields are outside the checksum."""
    _INT64.pack_into(batch, BASE_OFFSET_AT, base_offset)
    _INT32.pack_into(batch, LEADER_EPOCH_AT, leader_epoch)


def set_transactional(batch: bytearray | memoryview, producer_id: int, producer_epoch: int) -> None:
    """Make a batch part of a producer's transaction, with its first sequence 0, and reseal."""
    (attributes,) = _INT16.unpack_from(batch, ATTRIBUTES_AT)
    _INT16.pack_into(batch, ATTRIBUTES_AT, attributes | TRANSACTIONAL_BIT)
    _INT64.pack_into(batch, PRODUCER_ID_AT, producer_id)
    _INT16.pack_into(batch, PRODUCER_EPOCH_AT, producer_epoch)
    _INT32.pack_into(batch, BASE_SEQUENCE_AT, 0)
    reseal(batch)


def reseal(batch: bytearray | memoryview) -> None:
    """Compute the checksum again, after a change to what it covers. The batch fills the whole buffer."""
    with memoryview(batch) as view, view[ATTRIBUTES_AT:] as covered:
        checksum = crc32c(covered)
    _UINT32.pack_into(batch, CRC_AT, checksum)


def set_append_time(batch: bytearray | memoryview, timestamp_ms: int) -> None:
    """Set the append time, as LogAppendTime topics require, and reseal."""
    _set_max_timestamp(batch, timestamp_ms, LOG_APPEND_TIME_BIT)


def correct_max_timestamp(batch: bytearray | memoryview, timestamp_ms: int) -> None:
    """Correct the maximal timestamp of records that have their own, and reseal."""
    _set_max_timestamp(batch, timestamp_ms, 0)


def _set_max_timestamp(batch: bytearray | memoryview, timestamp_ms: int, type_bit: int) -> None:
    (attributes,) = _INT16.unpack_from(batch, ATTRIBUTES_AT)
    # Undefined bits are kept only in a batch that needs no new checksum.
    kept = attributes & KNOWN_ATTRIBUTES & ~LOG_APPEND_TIME_BIT
    _INT16.pack_into(batch, ATTRIBUTES_AT, kept | type_bit)
    _INT64.pack_into(batch, MAX_TIMESTAMP_AT, timestamp_ms)
    reseal(batch)
