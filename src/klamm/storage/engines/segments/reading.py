"""The reading part of a partition's log: its offsets, and reads and lookups."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.errors import ErrorCode
from klamm.storage.durability import HeldBack
from klamm.storage.engines.segments.chain import SegmentChain
from klamm.storage.engines.segments.epochs import LeaderEpochs
from klamm.storage.engines.segments.lookup import find_max_timestamp, find_timestamp
from klamm.storage.engines.segments.segment import Segment
from klamm.storage.engines.segments.slices import FileSlice
from klamm.storage.engines.segments.snapshots import Snapshots
from klamm.storage.engines.segments.sync import Flushing
from klamm.storage.log import (
    AbortedTransaction,
    EpochEnd,
    LogError,
    TimestampedOffset,
)
from klamm.storage.producer_gate import ProducerGate
from klamm.storage.producer_state import ProducerState


@dataclass(slots=True)
class LogParts:
    """The result of loading a log: its segments, epochs and producer state."""

    chain: SegmentChain
    snapshots: Snapshots
    epochs: LeaderEpochs
    producers: ProducerState
    flushing: Flushing
    log_start_offset: int
    log_end_offset: int
    stray_snapshots: Sequence[str]  # paths of files that nothing needs any more


class ReadableLog(ProducerGate):
    """A log's offsets and the ways to read it; what changes it is in `SegmentLog`."""

    def __init__(self, parts: LogParts) -> None:
        super().__init__(
            parts.producers, start_offset=parts.log_start_offset, end_offset=parts.log_end_offset
        )
        self.held_back: HeldBack | None = None
        self._chain = parts.chain
        self._snapshots = parts.snapshots
        self._epochs = parts.epochs
        self._flushing = parts.flushing
        self._high_watermark_place = (self._chain.active, self._chain.active.size_bytes)

    @property
    def directory(self) -> str:
        return self._chain.directory

    @property
    def recovery_point(self) -> int:
        """Everything below this offset is on disk, in the segments."""
        return self._flushing.recovery_point

    @property
    def size_bytes(self) -> int:
        return self._chain.size_bytes

    @property
    def segment_count(self) -> int:
        return len(self._chain.segments)

    @property
    def is_dirty(self) -> bool:
        return self._flushing.durable_offset < self.log_end_offset

    @property
    def is_written(self) -> bool:
        return self.held_back is None or not self.held_back.is_active

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All segments, the active one last."""
        return tuple(self._chain.segments)

    @property
    def epochs(self) -> LeaderEpochs:
        return self._epochs

    @property
    def producer_state(self) -> ProducerState:
        return self._producers

    # -- reading

    def read(self, offset: int, *, until_offset: int, max_bytes: int, at_least_one: bool) -> bytes:
        found = self.slice(
            offset,
            until_offset=until_offset,
            max_bytes=max_bytes,
            at_least_one=at_least_one,
            small_bytes=sys.maxsize,
        )
        assert isinstance(found, bytes)
        return found

    def slice(
        self, offset: int, *, until_offset: int, max_bytes: int, at_least_one: bool, small_bytes: int = 0
    ) -> FileSlice | bytes:
        if offset < self._log_start or offset > self.log_end_offset:
            raise LogError(
                ErrorCode.offset_out_of_range,
                f"offset {offset} is outside {self._log_start} to {self.log_end_offset}",
            )
        if offset >= until_offset:
            return b""
        try:
            segment, start, end = self._stretch(offset, until_offset)
            if end - start > max_bytes:
                limit = start + max(max_bytes, 0)
                end = segment.last_boundary(start, limit, at_least_one=at_least_one)
            if end <= start:
                return b""
            if end - start > small_bytes and segment.is_written(end):
                if segment is not self._chain.active:
                    until_offset = min(until_offset, self._chain.next_base(segment))
                return segment.slice(start, end - start, until_offset)
            data = segment.read(start, end - start)
        except OSError as error:
            raise storage_error(self.directory, error) from error
        if len(data) != end - start:
            raise LogError(
                ErrorCode.kafka_storage_error,
                f"{segment.log_path}: read {len(data)} bytes at position {start}, expected {end - start}",
            )
        return data

    def readable_bytes(self, offset: int, until_offset: int, limit_bytes: int) -> int:
        if not self._log_start <= offset < min(until_offset, self.log_end_offset):
            return 0
        try:
            _, start, end = self._stretch(offset, until_offset)
        except OSError as error:
            raise storage_error(self.directory, error) from error
        return max(0, min(end - start, limit_bytes))

    def _stretch(self, offset: int, until_offset: int) -> tuple[Segment, int, int]:
        """Where to read: a segment, the position of the batch that holds an offset, where to stop."""
        segment, start, end = self._chain.stretch(offset, until_offset, self.log_end_offset)
        if end is None:
            place = self._high_watermark_place
            if until_offset == self.high_watermark and segment is place[0]:
                return segment, start, place[1]
            end = segment.locate(until_offset)
        return segment, start, end

    def in_active_segment(self, offset: int) -> bool:
        return offset >= self._chain.active.base_offset

    def aborted_transactions(self, from_offset: int, until_offset: int) -> Sequence[AbortedTransaction]:
        try:
            return self._chain.aborted(from_offset, until_offset)
        except OSError as error:
            raise storage_error(self.directory, error) from error

    def offset_for_timestamp(self, timestamp_ms: int, until_offset: int) -> TimestampedOffset:
        chain = self._chain
        try:
            return find_timestamp(chain.segments, timestamp_ms, self._log_start, until_offset)
        except OSError as error:
            raise storage_error(self.directory, error) from error

    def offset_for_max_timestamp(self) -> TimestampedOffset:
        try:
            return find_max_timestamp(self._chain.segments, self._log_start)
        except OSError as error:
            raise storage_error(self.directory, error) from error

    def earliest(self) -> TimestampedOffset:
        return TimestampedOffset(self._log_start, -1, self._epochs.at(self._log_start))

    def end_of_epoch(self, leader_epoch: int) -> EpochEnd:
        return self._epochs.end_of(leader_epoch, self.log_end_offset)

    # -- what readers may see

    def _raise_high_watermark(self, offset: int, segment: Segment, position: int) -> None:
        old_segment, old_position = self._high_watermark_place
        if old_position < old_segment.size_bytes:
            # A read that ended at the old mark continues from there.
            old_segment.remember(self.high_watermark, old_position)
        self.high_watermark = offset
        self._high_watermark_place = (segment, position)
        producers = self._producers
        if producers.unstable_offset < 0:
            self._last_stable = offset
        elif producers.completed or producers.unstable_offset != self._last_stable:
            self._refresh_stable()
        self.on_change()


def storage_error(path: str, error: OSError) -> LogError:
    """The error for a disk that failed."""
    return LogError(ErrorCode.kafka_storage_error, f"{path}: {error}")
