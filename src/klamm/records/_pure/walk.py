"""Batch headers in a buffer: read one, find one, measure, scan."""

from __future__ import annotations

from struct import Struct
from typing import Final

from klamm.protocol.errors import DecodeError
from klamm.protocol.types import Buffer
from klamm.records._pure import hashes
from klamm.records._pure.region import decode_region
from klamm.records.layout import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    HEADER,
    HEADER_BYTES,
    LENGTH_AT,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    MAX_INT64,
    MIN_BATCH_LENGTH,
    TRANSACTIONAL_BIT,
    BatchHeader,
    OldFormatError,
    Scan,
    ScanEnd,
    TruncatedError,
)

_INT32: Final = Struct(">i")
_NO_TIMESTAMP: Final = -1


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


def sound_header(buffer: Buffer | None, max_bytes: int, max_codec: int) -> BatchHeader | None:
    """The header of a produced batch that is valid without doubt; None if it needs a full check.

    One whole batch of at most so many bytes, at offset 0, with a valid checksum and count, whose producer (if
    it has an id) gives a sequence: perhaps part of a transaction, no marker, the client's own timestamps.
    Records that are not compressed are read, too: there are as many as the header says, they count up from
    offset 0, and the latest timestamp is the header's.
    """
    if buffer is None or not HEADER_BYTES <= len(buffer) <= max_bytes:
        return None
    header = BatchHeader(*HEADER.unpack_from(buffer))
    is_sound = (
        header.magic == MAGIC
        and header.batch_length >= MIN_BATCH_LENGTH
        and header.size_bytes == len(buffer)
        and header.base_offset == 0
        and header.record_count > 0
        and header.record_count - 1 == header.last_offset_delta
        and not (header.producer_id >= 0 and header.base_sequence < 0)
        and not header.attributes & ~(CODEC_MASK | TRANSACTIONAL_BIT)
        and header.attributes & CODEC_MASK <= max_codec
        and hashes.quick_crc32c(memoryview(buffer)[ATTRIBUTES_AT:], 0) == header.crc
        and (header.attributes & CODEC_MASK != 0 or _has_sound_records(buffer, header))
    )
    return header if is_sound else None


def _has_sound_records(buffer: Buffer, header: BatchHeader) -> bool:
    region = memoryview(buffer)[HEADER_BYTES:]
    try:
        records = decode_region(region, header.record_count, 0, header.base_timestamp_ms)
    except DecodeError:
        return False
    latest_ms = max(_NO_TIMESTAMP, *(record.timestamp_ms for record in records))
    return latest_ms == header.max_timestamp_ms and all(
        record.offset == index for index, record in enumerate(records)
    )


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
        return OldFormatError(f"message format {magic} is not supported; convert the log with an older Kafka")
    if magic != MAGIC:
        return DecodeError(f"a batch of magic {magic}")
    return DecodeError(f"a batch of length {length}, at least {MIN_BATCH_LENGTH} is needed")


def find_batch(buffer: Buffer, position: int, target_offset: int) -> int:
    """The position of the first batch whose last offset is at or above the target; -1 if none is.

    Reads headers only: the batch found may end beyond the buffer. DecodeError where there is no batch.
    """
    end = len(buffer)
    check_position(position, end)
    while end - position >= HEADER_BYTES:
        header = parse_header(buffer, position)
        if _last_offset(header) >= target_offset:
            return position
        position += header.batch_length + LENGTH_OVERHEAD_BYTES
    return -1


def last_whole_batch_end(buffer: Buffer, position: int, limit: int, until_offset: int) -> int:
    """Where the last batch ends that is wholly below position `limit` and below `until_offset`.

    The position itself when not even the first one is. DecodeError where no batch can be.
    """
    end = min(len(buffer), limit)
    check_position(position, len(buffer))
    while end - position >= HEADER_BYTES:
        header = parse_header(buffer, position)
        next_position = position + header.batch_length + LENGTH_OVERHEAD_BYTES
        if _last_offset(header) >= until_offset or next_position > end:
            break
        position = next_position
    return position


def scan(buffer: Buffer, position: int = 0) -> Scan:
    """Every batch up to the first that is cut, impossible or damaged. Never raises for what it reads."""
    end = len(buffer)
    check_position(position, end)
    batches: list[tuple[int, BatchHeader]] = []
    stopped_by = ScanEnd.WHOLE
    while position < end:
        stopped_by = fault(buffer, position, end)
        if stopped_by is not ScanEnd.WHOLE:
            break
        header = parse_header(buffer, position)
        batches.append((position, header))
        position += header.batch_length + LENGTH_OVERHEAD_BYTES
    return Scan(batches, position, stopped_by)


def fault(buffer: Buffer, position: int, end: int) -> ScanEnd:
    """What is wrong with the batch at a position; WHOLE if nothing is."""
    if end - position < HEADER_BYTES:
        return ScanEnd.TRUNCATED
    header: BatchHeader = tuple.__new__(BatchHeader, HEADER.unpack_from(buffer, position))
    batch_end = position + header.batch_length + LENGTH_OVERHEAD_BYTES
    if header.magic != MAGIC:
        return ScanEnd.MAGIC
    if header.batch_length < MIN_BATCH_LENGTH:
        return ScanEnd.LENGTH
    if header.base_offset < 0 or header.last_offset_delta < 0 or header.last_offset > MAX_INT64:
        return ScanEnd.OFFSETS
    if batch_end > end:
        return ScanEnd.TRUNCATED
    if hashes.quick_crc32c(memoryview(buffer)[position + ATTRIBUTES_AT : batch_end], 0) != header.crc:
        return ScanEnd.CHECKSUM
    return ScanEnd.WHOLE


def _last_offset(header: BatchHeader) -> int:
    last_offset = header.base_offset + header.last_offset_delta
    if header.base_offset < 0 or header.last_offset_delta < 0 or last_offset > MAX_INT64:
        raise DecodeError(f"a batch at offset {header.base_offset} with delta {header.last_offset_delta}")
    return last_offset


def check_position(position: int, end: int) -> None:
    """Refuse a position outside of a buffer."""
    if not 0 <= position <= end:
        raise ValueError(f"position {position} in a buffer of {end} bytes")
