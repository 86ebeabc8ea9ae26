"""Iterating over the batches of a segment file, with or without checking them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple
from zlib import crc32

from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.records.batch import (
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC_AT,
    BatchHeader,
    OldFormatError,
    crc_is_valid,
    parse_header,
)
from klamm.storage.engines.segments.files import Files
from klamm.storage.log import LogError

CHUNK_BYTES: Final = 1 << 20
_OLD_CRC_AT: Final = 12


class BadBatchError(LogError):
    """A segment file is invalid from a position on."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(ErrorCode.kafka_storage_error, f"{path} at {position}: {reason}")
        self.position = position
        self.reason = reason


class FoundBatch(NamedTuple):
    """A batch in a file: where, its header, and the bytes it was read with."""

    position: int
    header: BatchHeader
    buffer: bytes
    at: int  # where it starts in the buffer


def walk(
    files: Files,
    path: str,
    *,
    start: int = 0,
    end: int | None = None,
    check_crc: bool = False,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[FoundBatch]:
    """Every batch between two positions of a file, whole, in order.

    Opens its own handle, so any thread may read a file that is not being cut. Raises BadBatchError
    where a batch is incomplete or impossible (or, when asked, fails its checksum), and
    LogError(kafka_storage_error) on an old message format, which must not be cut away as garbage.
    """
    handle = files.open(path)
    try:
        if end is None:
            end = files.size(handle)
        position, chunk, chunk_at = start, b"", start
        while position < end:
            at = position - chunk_at
            if len(chunk) - at < min(HEADER_BYTES, end - position):
                chunk, chunk_at, at = (
                    files.pread(handle, min(chunk_bytes, end - position), position),
                    position,
                    0,
                )
            header = _header_at(path, chunk, at, position)
            if header.size_bytes > end - position:
                raise BadBatchError(
                    path, position, f"batch of {header.size_bytes} bytes, {end - position} bytes left"
                )
            if at + header.size_bytes > len(chunk):
                wanted = max(header.size_bytes, min(chunk_bytes, end - position))
                chunk, chunk_at, at = files.pread(handle, wanted, position), position, 0
            if check_crc and not crc_is_valid(chunk, at, header):
                raise BadBatchError(path, position, "checksum mismatch")
            yield FoundBatch(position, header, chunk, at)
            position += header.size_bytes
    finally:
        files.close(handle)


def _header_at(path: str, chunk: bytes, at: int, position: int) -> BatchHeader:
    try:
        return parse_header(chunk, at)
    except OldFormatError as error:
        if _is_old_message(chunk, at):
            raise LogError(ErrorCode.kafka_storage_error, f"{path} at {position}: {error}") from error
        raise BadBatchError(path, position, str(error)) from error
    except DecodeError as error:
        raise BadBatchError(path, position, str(error)) from error


def _is_old_message(chunk: bytes, at: int) -> bool:
    """Whether this is certainly an old message: a torn header may look like one, except for its checksum."""
    length = int.from_bytes(chunk[at + 8 : at + LENGTH_OVERHEAD_BYTES], "big")
    crc = int.from_bytes(chunk[at + _OLD_CRC_AT : at + MAGIC_AT], "big")
    return crc32(chunk[at + MAGIC_AT : at + LENGTH_OVERHEAD_BYTES + length]) == crc
