"""The sparse `.index` of a segment: from an offset to a position near its batch.

An entry (last offset of a batch, position of that batch) is added every `index.interval.bytes`. Entries are
kept in two arrays and written late: at a roll, at shutdown, or a block at a time. After a crash the index of
every segment that was not flushed is rebuilt from its log.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from contextlib import suppress
from operator import ge
from typing import Final

from klamm.storage.engines.segments.files import Files

ENTRY_BYTES: Final = 8
_BLOCK_ENTRIES: Final = 1024


class CorruptIndexError(Exception):
    """An index that is inconsistent in itself or with its log; it can be rebuilt."""


class OffsetIndex:
    """The offset index of one segment."""

    __slots__ = ("_files", "_loaded", "_offsets", "_positions", "_written", "base_offset", "path")

    def __init__(self, files: Files, path: str, base_offset: int, *, is_new: bool = False) -> None:
        self._files = files
        self.path = path
        self.base_offset = base_offset
        self._offsets = array("i")  # relative to the base, of each batch's last record
        self._positions = array("i")
        self._written = 0  # entries that the file holds
        self._loaded = is_new

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_loaded(self) -> bool:
        return self._loaded

    def load(self, log_size_bytes: int) -> None:
        """Read the file; CorruptIndexError when it is not an index of this log."""
        data = self._files.read_file(self.path)
        if len(data) % ENTRY_BYTES:
            raise CorruptIndexError(f"{self.path}: {len(data)} bytes are not a whole number of entries")
        entries = _swapped(array("i", data))
        offsets, positions = entries[0::2], entries[1::2]
        if offsets and (
            offsets[0] < 0
            or positions[0] < 0
            or positions[-1] >= log_size_bytes
            or any(map(ge, offsets, offsets[1:]))
            or any(map(ge, positions, positions[1:]))
        ):
            raise CorruptIndexError(f"{self.path}: entries are not in ascending order, or point past the log")
        self._offsets, self._positions = offsets, positions
        self._written = len(offsets)
        self._loaded = True

    def unload(self) -> None:
        """Drop the entries from memory; they are read from the file when needed."""
        assert self._written == len(self._offsets)
        self._offsets, self._positions, self._written = array("i"), array("i"), 0
        self._loaded = False

    def add(self, last_offset: int, position: int) -> None:
        """Add an entry for the batch at a position; position and last offset exceed all earlier ones."""
        self._offsets.append(last_offset - self.base_offset)
        self._positions.append(position)
        if len(self._offsets) - self._written >= _BLOCK_ENTRIES:
            # The batch is already in the log; an index that a full disk rejects is written later.
            with suppress(OSError):
                self.flush()

    def lookup(self, offset: int) -> int:
        """A position at or before the first batch that ends at or above an offset."""
        found = bisect_right(self._offsets, offset - self.base_offset)
        return self._positions[found - 1] if found else 0

    def floor_position(self, position: int) -> int:
        """The last indexed batch position at or before a position; 0 when there is none."""
        found = bisect_right(self._positions, position)
        return self._positions[found - 1] if found else 0

    def peek_last_position(self, log_size_bytes: int) -> int:
        """As `last_position`, but reads only the end of the file; CorruptIndexError when it is invalid."""
        if self._loaded:
            return self.last_position()
        try:
            handle = self._files.open(self.path)
        except FileNotFoundError:
            return 0
        try:
            size_bytes = self._files.size(handle)
            if size_bytes % ENTRY_BYTES:
                raise CorruptIndexError(f"{self.path}: {size_bytes} bytes are not a whole number of entries")
            if not size_bytes:
                return 0
            entry = self._files.pread(handle, ENTRY_BYTES, size_bytes - ENTRY_BYTES)
        finally:
            self._files.close(handle)
        offset, position = (int.from_bytes(part, "big", signed=True) for part in (entry[:4], entry[4:]))
        if offset < 0 or not 0 <= position < log_size_bytes:
            raise CorruptIndexError(f"{self.path}: the last entry is invalid")
        return position

    def last_position(self) -> int:
        """The position of the last indexed batch; 0 without entries."""
        return self._positions[-1] if self._positions else 0

    def entries(self) -> list[tuple[int, int]]:
        """(last offset, position) of every entry."""
        return [
            (offset + self.base_offset, at) for offset, at in zip(self._offsets, self._positions, strict=True)
        ]

    def flush(self) -> None:
        """Write new entries to the file; page cache only."""
        count = len(self._offsets) - self._written
        if not count and self._files.exists(self.path):
            return
        block = array("i", bytes(ENTRY_BYTES * count))
        block[0::2] = self._offsets[self._written :]
        block[1::2] = self._positions[self._written :]
        write_at(self._files, self.path, self._written * ENTRY_BYTES, _swapped(block).tobytes())
        self._written += count

    def truncate(self, to_position: int) -> None:
        """Drop entries of batches at or above a position of the log."""
        keep = bisect_right(self._positions, to_position - 1)
        del self._offsets[keep:]
        del self._positions[keep:]
        if keep < self._written:
            cut_file(self._files, self.path, keep * ENTRY_BYTES)
            self._written = keep

    def reset(self) -> None:
        """Remove all entries."""
        self._offsets, self._positions, self._written = array("i"), array("i"), 0
        self._loaded = True
        cut_file(self._files, self.path, 0)


def _swapped(numbers: array[int]) -> array[int]:
    """Convert between this machine's byte order and the file's."""
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


def write_at(files: Files, path: str, position: int, data: bytes) -> None:
    """Write bytes at a position and cut the file behind them; raises OSError."""
    handle = files.open(path, create=True)
    try:
        files.truncate(handle, position)
        rest = memoryview(data)
        while rest:
            written = files.pwritev(handle, [rest], position)
            rest = rest[written:]
            position += written
    finally:
        files.close(handle)


def cut_file(files: Files, path: str, length: int) -> None:
    """Cut a file to a length; a missing file counts as empty."""
    try:
        handle = files.open(path)
    except FileNotFoundError:
        return
    try:
        files.truncate(handle, length)
    finally:
        files.close(handle)
