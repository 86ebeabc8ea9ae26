"""Record batches as opaque bytes: read the header, check the checksum, stamp what a broker may stamp."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from klamm.protocol.errors import DecodeError
from klamm.protocol.types import Buffer
from klamm.records.checksum import crc32c
from klamm.records.layout import (
    ATTRIBUTES_AT,
    BASE_OFFSET_AT,
    BASE_SEQUENCE_AT,
    BASE_TIMESTAMP_AT,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_AT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    LENGTH_AT,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_AT,
    MAX_INT32,
    MAX_TIMESTAMP_AT,
    MIN_BATCH_LENGTH,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT,
    RECORD_COUNT_AT,
    RECORDS_AT,
    TRANSACTIONAL_BIT,
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


class TruncatedError(DecodeError):
    """The bytes end before the batch does; the rest may be on its way."""


class OldFormatError(DecodeError):
    """A message of magic 0 or 1: well formed once, no longer spoken."""


class TimestampType(IntEnum):
    """Whose clock a record's timestamp was read from."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The 61 bytes in front of the records, field by field in the order of the wire."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def size_bytes(self) -> int:
        """The whole batch, from its base offset to its last record."""
        return self.batch_length + LENGTH_OVERHEAD_BYTES

    @property
    def codec(self) -> int:
        """The compression codec's number; 5 to 7 mean nothing yet."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> TimestampType:
        if self.attributes & LOG_APPEND_TIME_BIT:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether the base timestamp says when the cleaner may drop the batch's tombstones."""
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def last_sequence(self) -> int:
        """Sequences run from 0 to 2147483647 and start again at 0; -1 for a batch without one."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & MAX_INT32


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at a position. The records behind it need not be there.

    Raises TruncatedError when fewer than 61 bytes are left, OldFormatError for magic 0 and 1,
    DecodeError for a length or a magic that no batch can have. Every other field is taken as it is.
    """
    if position < 0 or len(buffer) - position < HEADER_BYTES:
        raise _short_header(buffer, position)
    fields = HEADER.unpack_from(buffer, position)
    if fields[3] != MAGIC or fields[1] < MIN_BATCH_LENGTH:
        raise _impossible(fields[1], fields[3])
    return tuple.__new__(BatchHeader, fields)


def _short_header(buffer: Buffer, position: int) -> DecodeError:
    left = len(buffer) - position
    if position >= 0 and left > MAGIC_AT:
        # An old message may be shorter than a batch header, and garbage is garbage at any size.
        (length,) = _INT32.unpack_from(buffer, position + LENGTH_AT)
        magic = memoryview(buffer)[position + MAGIC_AT]
        if magic != MAGIC or length < MIN_BATCH_LENGTH:
            return _impossible(length, magic)
    return TruncatedError(f"a batch header needs {HEADER_BYTES} bytes, {max(left, 0)} are left")


def _impossible(length: int, magic: int) -> DecodeError:
    if magic in (0, 1) and length >= 14:  # Kafka's smallest message of these formats
        return OldFormatError(f"messages of magic {magic} are not read; convert them with an older Kafka")
    if magic != MAGIC:
        return DecodeError(f"a batch of magic {magic}")
    return DecodeError(f"a batch of length {length}, at least {MIN_BATCH_LENGTH} is needed")


def iter_headers(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of every whole batch.

    A batch cut off at the end is not an error: a fetch may end in the middle of one. Bytes that cannot
    be a batch raise DecodeError when the walk reaches them.
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
    """Whether the whole batch is there and its checksum is the one that its header carries."""
    batch_end = position + header.batch_length + LENGTH_OVERHEAD_BYTES
    if batch_end > len(buffer):
        return False
    return crc32c(memoryview(buffer)[position + ATTRIBUTES_AT : batch_end]) == header.crc


def stamp(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Write where the batch stands in the log. Both fields are outside the checksum."""
    _INT64.pack_into(batch, BASE_OFFSET_AT, base_offset)
    _INT32.pack_into(batch, LEADER_EPOCH_AT, leader_epoch)


def reseal(batch: bytearray | memoryview) -> None:
    """Write the checksum anew, after a change to what it covers. The batch fills the whole buffer."""
    with memoryview(batch) as view, view[ATTRIBUTES_AT:] as covered:
        checksum = crc32c(covered)
    _UINT32.pack_into(batch, CRC_AT, checksum)


def set_append_time(batch: bytearray | memoryview, timestamp_ms: int) -> None:
    """Make the broker's clock the records' time, as LogAppendTime topics want it, and reseal."""
    (attributes,) = _INT16.unpack_from(batch, ATTRIBUTES_AT)
    _INT16.pack_into(batch, ATTRIBUTES_AT, attributes | LOG_APPEND_TIME_BIT)
    _INT64.pack_into(batch, MAX_TIMESTAMP_AT, timestamp_ms)
    reseal(batch)
