"""The segments of one log in order: finding, adding, cutting and replacing them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from contextlib import suppress

from klamm.storage.engines.segments import names
from klamm.storage.engines.segments.files import Files
from klamm.storage.engines.segments.handles import HandlePool
from klamm.storage.engines.segments.segment import Segment
from klamm.storage.log import AbortedTransaction


class SegmentChain:
    """Segments in order of their base offsets; the last one is active. Never empty."""

    def __init__(self, files: Files, pool: HandlePool, directory: str, segments: Iterable[Segment]) -> None:
        self.files = files
        self._pool = pool
        self.directory = directory
        self.segments = list(segments)
        self._bases = [segment.base_offset for segment in self.segments]
        self.active = self.segments[-1]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    def add(self, base_offset: int, now_ms: int) -> Segment:
        """A new active segment. Raises OSError; then nothing has changed."""
        segment = Segment.create(self.files, self._pool, self.directory, base_offset, now_ms=now_ms)
        if self.active.held_from is not None:
            segment.held_from = 0
        self._set([*self.segments, segment])
        return segment

    def _set(self, segments: list[Segment]) -> None:
        self.segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]

    # -- finding

    def stretch(self, offset: int, until_offset: int, log_end_offset: int) -> tuple[Segment, int, int | None]:
        """Where to read: a segment, the position of the batch that holds an offset, where to stop.

        None for the last when the batches at and above `until_offset` are in this segment: only then must
        the caller find where they begin.
        """
        index = bisect_right(self._bases, offset) - 1
        segment = self.segments[index]
        start = segment.locate(offset)
        # There may be a gap after the last batch of a segment: read the next one.
        while start == segment.size_bytes and segment is not self.active:
            index += 1
            segment = self.segments[index]
            start = segment.locate(offset)
        if until_offset >= log_end_offset or (
            segment is not self.active and self._bases[index + 1] <= until_offset
        ):
            return segment, start, segment.size_bytes
        return segment, start, None

    def next_base(self, segment: Segment) -> int:
        """The base offset of the segment behind one that is not active."""
        return self._bases[bisect_right(self._bases, segment.base_offset)]

    def aborted(self, from_offset: int, until_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions that overlap a range, and perhaps a few more."""
        aborted = []
        first = max(bisect_right(self._bases, from_offset) - 1, 0)
        for segment in self.segments[first:]:
            for entry in segment.loaded_txn_index().entries():
                if entry.last_offset >= from_offset and entry.first_offset < until_offset:
                    aborted.append(AbortedTransaction(entry.producer_id, entry.first_offset))
                if entry.last_stable_offset >= until_offset:
                    return aborted
        return aborted

    # -- cutting

    def cut(self, to_offset: int, log_start_offset: int, now_ms: int) -> tuple[int, list[Segment]]:
        """Cut off all batches that end at or above an offset: the log end then, and what was dropped.

        Batches are removed whole: the log then ends where the first one began, but never below its start.
        The newest segments are removed first, so a crash on the way leaves a longer log, never one with a
        gap. The file that is active then is left to `Repair`. Raises OSError.
        """
        keep = bisect_right(self._bases, to_offset)
        position = 0
        if keep:
            target = self.segments[keep - 1]
            position = target.locate(to_offset)
            if position < target.size_bytes:
                to_offset = min(to_offset, target.base_offset_at(position))
        if not keep or to_offset < log_start_offset:
            # No visible batch is left.
            to_offset = max(to_offset, log_start_offset)
            dropped = self.segments
            self._drop_files(dropped)
            self._set([Segment.create(self.files, self._pool, self.directory, to_offset, now_ms=now_ms)])
            return to_offset, dropped
        dropped = self.segments[keep:]
        self._drop_files(dropped)
        self._set(self.segments[:keep])
        target.truncate(position, to_offset)
        return to_offset, dropped

    def drop_oldest(self, count: int) -> list[Segment]:
        """Remove the oldest segments; their files are renamed to `.deleted`. Raises OSError."""
        dropped = self.segments[:count]
        self._set(self.segments[count:])
        # The oldest first: a crash on the way must not leave a gap.
        for segment in dropped:
            segment.close_handle()
            segment.rename(names.DELETED_SUFFIX)
        return dropped

    def _drop_files(self, dropped: Sequence[Segment]) -> None:
        for segment in reversed(dropped):
            segment.close_handle()
            segment.rename(names.DELETED_SUFFIX)

    def replace(self, old: Sequence[Segment], new: Sequence[Segment], now_ms: int) -> None:
        """Replace segments with cleaned ones, so that a crash leaves the old or the new. Raises OSError.

        Those in `new` are finished, and durable with names that end in `.swap`.
        """
        self._drop_files(old)
        replacements = []
        for segment in new:
            segment.rename("")
            replacements.append(self.adopt(segment, now_ms))
        first = self._bases.index(old[0].base_offset)
        self._set([*self.segments[:first], *replacements, *self.segments[first + len(old) :]])

    def adopt(self, segment: Segment, now_ms: int) -> Segment:
        """A segment of this log over existing files."""
        return Segment(
            self.files,
            self._pool,
            self.directory,
            segment.base_offset,
            size_bytes=segment.size_bytes,
            modified_at_ms=segment.modified_at_ms,
            created_at_ms=now_ms,
        )

    def close(self) -> None:
        """Close all handles."""
        for segment in self.segments:
            with suppress(OSError):  # loses nothing: a close that must be durable has synced before
                segment.close_handle()
