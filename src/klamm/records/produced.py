"""The checks of a produced batch before it is appended: header and checksum, not the records.

Kafka checks in two places, with other checks between them: first that there is exactly one batch
(`single_batch`), then, once the partition is found, that the batch may be appended (`append_error`).
"""

from __future__ import annotations

from typing import Final

from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.protocol.types import Buffer
from klamm.records.batch import (
    LENGTH_AT,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    OldFormatError,
    TruncatedError,
    crc_is_valid,
    parse_header,
)
from klamm.records.compression import Codec

_SMALLEST_LENGTH: Final = 14  # of the oldest format
_LARGEST_LENGTH: Final = 2**31 - 1 - LENGTH_OVERHEAD_BYTES


class ProducedError(ValueError):
    """A produced batch is rejected; `error_code` and the message go into the response."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code


def single_batch(records: Buffer | None, *, zstd_allowed: bool = True) -> BatchHeader:
    """The header of the single batch that a Produce request may hold for a partition.

    Part of another one may follow it, which is ignored. `zstd_allowed` is false for request versions before
    zstd.
    """
    if records is None:
        raise ProducedError(ErrorCode.invalid_record, "no records")
    try:
        header = parse_header(records)
    except (TruncatedError, OldFormatError) as error:
        raise ProducedError(ErrorCode.invalid_record, str(error)) from None
    except DecodeError as error:
        raise ProducedError(ErrorCode.corrupt_message, str(error)) from None
    if header.size_bytes > len(records):
        raise ProducedError(ErrorCode.invalid_record, "incomplete batch")
    if header.codec >= Codec.ZSTD and not zstd_allowed:
        raise ProducedError(
            ErrorCode.unsupported_compression_type, f"codec {header.codec} is not supported here"
        )
    _check_rest(memoryview(records)[header.size_bytes :])
    return header


def _check_rest(rest: memoryview) -> None:
    """Nothing, or less than a batch, may follow the batch: Kafka ignores a batch that is cut off."""
    if is_no_batch(rest):
        raise ProducedError(ErrorCode.corrupt_message, "bytes that are no batch follow the batch")
    if len(rest) > MAGIC_AT:
        size_bytes = int.from_bytes(rest[LENGTH_AT : LENGTH_AT + 4], "big") + LENGTH_OVERHEAD_BYTES
        if size_bytes <= len(rest):
            raise ProducedError(ErrorCode.invalid_record, "more than one batch for a partition in a request")


def is_no_batch(records: Buffer | None) -> bool:
    """Whether these bytes are not a batch of any format, which Kafka checks first."""
    start = bytes(memoryview(records or b"")[: MAGIC_AT + 1])
    if len(start) < LENGTH_AT + 4:
        return False
    if int.from_bytes(start[LENGTH_AT : LENGTH_AT + 4], "big", signed=True) < _SMALLEST_LENGTH:
        return True
    return len(start) > MAGIC_AT and start[MAGIC_AT] > MAGIC


def has_impossible_length(records: Buffer | None) -> bool:
    """Whether a batch is said to be so long that its size is no number of 32 bits, on which Kafka fails."""
    start = bytes(memoryview(records or b"")[: MAGIC_AT + 1])
    if len(start) <= MAGIC_AT or start[MAGIC_AT] > MAGIC:
        return False
    return int.from_bytes(start[LENGTH_AT : LENGTH_AT + 4], "big", signed=True) > _LARGEST_LENGTH


def first_header(records: Buffer | None) -> BatchHeader | None:
    """The header of the first batch, if the batch is complete, whatever else is wrong."""
    try:
        header = parse_header(records or b"")
    except DecodeError:
        return None
    return header if header.size_bytes <= len(records or b"") else None


def append_error(batch: Buffer, header: BatchHeader, max_message_bytes: int) -> ErrorCode:
    """Why this batch must not be appended; `none` when it may."""
    if header.base_offset != 0:
        return ErrorCode.invalid_record
    if header.size_bytes > max_message_bytes:
        return ErrorCode.message_too_large
    if not crc_is_valid(batch, 0, header):
        return ErrorCode.corrupt_message
    if header.codec > Codec.ZSTD:
        return ErrorCode.unsupported_compression_type
    count_is_false = header.record_count <= 0 or header.record_count != header.last_offset_delta + 1
    pid_without_sequence = header.producer_id >= 0 and header.base_sequence < 0
    if count_is_false or header.is_control or pid_without_sequence:
        return ErrorCode.invalid_record
    return ErrorCode.none
