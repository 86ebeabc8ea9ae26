"""Finding records by timestamp."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.records.record import decode_records
from klamm.storage.engines.segments.scan import FoundBatch
from klamm.storage.engines.segments.segment import Segment
from klamm.storage.log import LogError, TimestampedOffset

_CHUNK_BYTES = 64 * 1024  # most searches end within a few kilobytes of the indexed position


def find_timestamp(
    segments: Sequence[Segment], timestamp_ms: int, start_offset: int, until_offset: int
) -> TimestampedOffset:
    """The lowest offset in a range whose record is dated at or after a timestamp."""
    for index, segment in enumerate(segments):
        if segment.base_offset >= until_offset:
            break
        if index + 1 < len(segments) and segments[index + 1].base_offset <= start_offset:
            continue
        if not segment.size_bytes or segment.max_timestamp()[0] < timestamp_ms:
            continue
        # Records up to this entry are older. Timestamps may decrease, so the search reads every batch.
        first = max(segment.loaded_time_index().lookup(timestamp_ms), start_offset)
        start = segment.locate(first)
        for batch in segment.batches(start, _CHUNK_BYTES):
            if batch.header.base_offset >= until_offset:
                return TimestampedOffset()
            if batch.header.max_timestamp_ms < timestamp_ms:
                continue
            found = _in_batch(batch, timestamp_ms, start_offset, segment.log_path)
            if found is not None:
                return found if found.offset < until_offset else TimestampedOffset()
    return TimestampedOffset()


def find_max_timestamp(segments: Sequence[Segment], start_offset: int) -> TimestampedOffset:
    """The first record with the largest timestamp in a log; if none is dated, the first record."""
    best_ms, best_offset = -1, -1
    for index, segment in enumerate(segments):
        if index + 1 < len(segments) and segments[index + 1].base_offset <= start_offset:
            continue
        timestamp_ms, offset = segment.max_timestamp()
        if segment.base_offset < start_offset and timestamp_ms > best_ms:
            # The log start is inside this segment: its largest timestamp may be below it.
            timestamp_ms, offset = _max_from(segment, start_offset)
        if timestamp_ms > best_ms:
            best_ms, best_offset = timestamp_ms, offset
    until_offset = best_offset + 1 if best_ms >= 0 else sys.maxsize
    return find_timestamp(segments, best_ms, start_offset, until_offset)


def _max_from(segment: Segment, start_offset: int) -> tuple[int, int]:
    best_ms, best_offset = -1, -1
    for batch in segment.batches(segment.locate(start_offset)):
        header = batch.header
        if header.max_timestamp_ms <= best_ms:
            continue
        if header.base_offset < start_offset:
            kept = [record for record in _records(batch, segment.log_path) if record[1] >= start_offset]
            batch_ms = max((timestamp_ms for timestamp_ms, _ in kept), default=-1)
        else:
            batch_ms = header.max_timestamp_ms
        if batch_ms > best_ms:
            best_ms, best_offset = batch_ms, header.last_offset
    return best_ms, best_offset


def _in_batch(batch: FoundBatch, timestamp_ms: int, start_offset: int, path: str) -> TimestampedOffset | None:
    """The first record of a batch at or after a timestamp, if any."""
    for record_ms, offset in _records(batch, path):
        if record_ms >= timestamp_ms and offset >= start_offset:
            return TimestampedOffset(offset, record_ms, batch.header.leader_epoch)
    return None


def _records(batch: FoundBatch, path: str) -> list[tuple[int, int]]:
    """(timestamp, offset) of each record; LogError when the records do not match their header."""
    try:
        return [(record.timestamp_ms, record.offset) for record in decode_records(batch.buffer, batch.at)]
    except DecodeError as error:
        raise LogError(ErrorCode.corrupt_message, f"{path} at {batch.position}: {error}") from error
