"""From an offset to a position near its batch: the sparse `.index` of a segment.

An entry (last offset of a batch, position of that batch) comes every `index.interval.bytes`. Entries live
in two arrays and reach the file late, at a roll, at a stop or a block at a time: after a crash the index of
every segment that was not flushed is built anew from its log.
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
    """An index that contradicts itself or its log; it can be rebuilt."""


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
        """Read the file; CorruptIndexError when it cannot be this log's index."""
        data = self._files.read_file(self.path)
        if len(data) % ENTRY_BYTES:
            raise CorruptIndexError(f"{self.path} has {len(data)} bytes, which is no number of entries")
        entries = _swapped(array("i", data))
        offsets, positions = entries[0::2], entries[1::2]
        if offsets and (
            offsets[0] < 0
            or positions[0] < 0
            or positions[-1] >= log_size_bytes
            or any(map(ge, offsets, offsets[1:]))
            or any(map(ge, positions, positions[1:]))
        ):
            raise CorruptIndexError(f"{self.path} has entries that do not rise or point past the log")
        self._offsets, self._positions = offsets, positions
        self._written = len(offsets)
        self._loaded = True

    def unload(self) -> None:
        """Forget the entries until they are needed again; they are in the file."""
        assert self._written == len(self._offsets)
        self._offsets, self._positions, self._written = array("i"), array("i"), 0
        self._loaded = False

    def add(self, last_offset: int, position: int) -> None:
        """Note that the batch at a position ends at an offset; both above all before."""
        self._offsets.append(last_offset - self.base_offset)
        self._positions.append(position)
        if len(self._offsets) - self._written >= _BLOCK_ENTRIES:
            # The batch is in the log already; an index on a full disk can wait for its next chance.
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
        """As `last_position`, read from the end of the file alone; CorruptIndexError when it cannot be."""
        if self._loaded:
            return self.last_position()
        try:
            handle = self._files.open(self.path)
        except FileNotFoundError:
            return 0
        try:
            size_bytes = self._files.size(handle)
            if size_bytes % ENTRY_BYTES:
                raise CorruptIndexError(f"{self.path} has {size_bytes} bytes, which is no number of entries")
            if not size_bytes:
                return 0
            entry = self._files.pread(handle, ENTRY_BYTES, size_bytes - ENTRY_BYTES)
        finally:
            self._files.close(handle)
        offset, position = (int.from_bytes(part, "big", signed=True) for part in (entry[:4], entry[4:]))
        if offset < 0 or not 0 <= position < log_size_bytes:
            raise CorruptIndexError(f"{self.path} ends in an impossible entry")
        return position

    def last_position(self) -> int:
        """Where the last indexed batch stands; 0 without entries."""
        return self._positions[-1] if self._positions else 0

    def entries(self) -> list[tuple[int, int]]:
        """(last offset, position) of every entry."""
        return [
            (offset + self.base_offset, at) for offset, at in zip(self._offsets, self._positions, strict=True)
        ]

    def flush(self) -> None:
        """Bring the file up to date with the arrays; page cache only."""
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
        """Start anew with no entries."""
        self._offsets, self._positions, self._written = array("i"), array("i"), 0
        self._loaded = True
        cut_file(self._files, self.path, 0)


def _swapped(numbers: array[int]) -> array[int]:
    """Between this machine's byte order and the file's."""
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


def write_at(files: Files, path: str, position: int, data: bytes) -> None:
    """Make a file end with these bytes at a position; raises OSError."""
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
    """Cut a file to a length; one that is not there counts as empty."""
    try:
        handle = files.open(path)
    except FileNotFoundError:
        return
    try:
        files.truncate(handle, length)
    finally:
        files.close(handle)
