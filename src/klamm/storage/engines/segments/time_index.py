"""From a timestamp to an offset near it: the `.timeindex` of a segment.

An entry (largest timestamp so far, last offset of the batch that has it). The last entry also holds the
largest timestamp of the whole segment, so only that entry is read when a log is opened.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from contextlib import suppress
from operator import ge
from struct import Struct, iter_unpack
from typing import Final

from klamm.storage.engines.segments.files import Files
from klamm.storage.engines.segments.offset_index import CorruptIndexError, cut_file, write_at

ENTRY_BYTES: Final = 12
_ENTRY: Final = Struct(">qi")
_BLOCK_ENTRIES: Final = 1024
NO_TIMESTAMP_MS: Final = -1


class TimeIndex:
    """The time index of one segment."""

    __slots__ = ("_files", "_loaded", "_offsets", "_timestamps", "_written", "base_offset", "path")

    def __init__(self, files: Files, path: str, base_offset: int, *, is_new: bool = False) -> None:
        self._files = files
        self.path = path
        self.base_offset = base_offset
        self._timestamps = array("q")
        self._offsets = array("i")  # relative to the base
        self._written = 0
        self._loaded = is_new

    def __len__(self) -> int:
        return len(self._timestamps)

    @property
    def is_loaded(self) -> bool:
        return self._loaded

    def load(self) -> None:
        """Read the file; CorruptIndexError when it is not a time index."""
        data = self._files.read_file(self.path)
        if len(data) % ENTRY_BYTES:
            raise CorruptIndexError(f"{self.path}: {len(data)} bytes are not a whole number of entries")
        timestamps, offsets = array("q"), array("i")
        for timestamp_ms, offset in iter_unpack(">qi", data):
            timestamps.append(timestamp_ms)
            offsets.append(offset)
        if timestamps and (
            offsets[0] < 0 or any(map(ge, timestamps, timestamps[1:])) or any(map(ge, offsets, offsets[1:]))
        ):
            raise CorruptIndexError(f"{self.path}: entries are not in ascending order")
        self._timestamps, self._offsets = timestamps, offsets
        self._written = len(timestamps)
        self._loaded = True

    def unload(self) -> None:
        """Drop the entries from memory; they are read from the file when needed."""
        assert self._written == len(self._timestamps)
        self._timestamps, self._offsets, self._written = array("q"), array("i"), 0
        self._loaded = False

    def peek_last(self) -> tuple[int, int]:
        """(timestamp, offset) of the last entry, read from the file alone; (-1, base) without any."""
        if self._loaded:
            return self.last()
        handle = self._files.open(self.path)
        try:
            size_bytes = self._files.size(handle)
            if size_bytes % ENTRY_BYTES:
                raise CorruptIndexError(f"{self.path}: {size_bytes} bytes are not a whole number of entries")
            if not size_bytes:
                return NO_TIMESTAMP_MS, self.base_offset
            timestamp_ms, offset = _ENTRY.unpack(
                self._files.pread(handle, ENTRY_BYTES, size_bytes - ENTRY_BYTES)
            )
        finally:
            self._files.close(handle)
        if offset < 0 or timestamp_ms < 0:
            raise CorruptIndexError(f"{self.path}: the last entry is invalid")
        return timestamp_ms, self.base_offset + offset

    def last(self) -> tuple[int, int]:
        """(timestamp, offset) of the last entry; (-1, base) without any."""
        if not self._timestamps:
            return NO_TIMESTAMP_MS, self.base_offset
        return self._timestamps[-1], self.base_offset + self._offsets[-1]

    def maybe_add(self, timestamp_ms: int, offset: int) -> None:
        """Add an entry for the largest timestamp so far, if it rose since the last entry."""
        if timestamp_ms < 0 or (self._timestamps and timestamp_ms <= self._timestamps[-1]):
            return
        self._timestamps.append(timestamp_ms)
        self._offsets.append(offset - self.base_offset)
        if len(self._timestamps) - self._written >= _BLOCK_ENTRIES:
            # The batch is already in the log; an index that a full disk rejects is written later.
            with suppress(OSError):
                self.flush()

    def lookup(self, timestamp_ms: int) -> int:
        """The offset to search from: every record before it is older than the timestamp."""
        # An entry states that no record up to its offset is newer than its timestamp. One equal to the
        # target may be the record itself, so only strictly smaller entries can be skipped.
        found = bisect_right(self._timestamps, timestamp_ms - 1)
        return self.base_offset + self._offsets[found - 1] if found else self.base_offset

    def entries(self) -> list[tuple[int, int]]:
        """(timestamp, offset) of every entry."""
        return [
            (at, offset + self.base_offset)
            for at, offset in zip(self._timestamps, self._offsets, strict=True)
        ]

    def flush(self) -> None:
        """Write new entries to the file; page cache only."""
        count = len(self._timestamps) - self._written
        if not count and self._files.exists(self.path):
            return
        block = b"".join(map(_ENTRY.pack, self._timestamps[self._written :], self._offsets[self._written :]))
        write_at(self._files, self.path, self._written * ENTRY_BYTES, block)
        self._written += count

    def truncate(self, next_offset: int) -> None:
        """Drop entries of batches that end at or above an offset."""
        keep = bisect_right(self._offsets, next_offset - 1 - self.base_offset)
        del self._timestamps[keep:]
        del self._offsets[keep:]
        if keep < self._written:
            cut_file(self._files, self.path, keep * ENTRY_BYTES)
            self._written = keep

    def reset(self) -> None:
        """Remove all entries."""
        self._timestamps, self._offsets, self._written = array("q"), array("i"), 0
        self._loaded = True
        cut_file(self._files, self.path, 0)
