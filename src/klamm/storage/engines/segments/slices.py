"""Ranges of segment files that are read later, and stay valid if the segment is deleted meanwhile."""

from __future__ import annotations

from contextlib import suppress
from struct import Struct
from typing import Final

from klamm.protocol.errors import ErrorCode
from klamm.storage.engines.segments.files import Files
from klamm.storage.log import LogError

_BASE_OFFSET: Final = Struct(">q")


class PinnedFile:
    """A segment's open file, shared by the segment and the slices of it; closed when none of them needs it.

    One handle serves any number of slices: readers that stop half way must not use up the file descriptors.
    """

    __slots__ = ("_files", "_handle", "_is_owned", "path", "pins")

    def __init__(self, files: Files, handle: int, path: str) -> None:
        self._files = files
        self._handle = handle
        self._is_owned = True
        self.path = path
        self.pins = 0

    def unpin(self) -> None:
        self.pins -= 1
        if not self._is_owned:
            self._close_if_unused()

    def disown(self) -> None:
        """The segment does not need the file any more: the last slice closes it."""
        self._is_owned = False
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        if not self.pins:
            with suppress(OSError):  # it was only read, nothing can be lost
                self._files.close(self._handle)

    def descriptor(self) -> int | None:
        return self._files.descriptor(self._handle)

    def read(self, position: int, length: int) -> bytes:
        return self._files.pread(self._handle, length, position)


class FileSlice:
    """Whole batches in one segment file. To be closed after use; one that is dropped closes itself."""

    __slots__ = ("_file", "_has_next", "_is_closed", "_length", "_start", "_until_offset")

    def __init__(self, file: PinnedFile, start: int, length: int, until_offset: int, has_next: bool) -> None:
        file.pins += 1
        self._file = file
        self._start = start
        self._length = length
        self._until_offset = until_offset
        self._has_next = has_next  # whether there is a batch behind it
        self._is_closed = False

    def __len__(self) -> int:
        return self._length

    def read(self, position: int, length: int) -> bytes:
        return self._pread(self._start + position, min(length, self._length - position))

    def place(self) -> tuple[int, int] | None:
        assert not self._is_closed
        descriptor = self._file.descriptor()
        return None if descriptor is None else (descriptor, self._start)

    def _pread(self, position: int, length: int) -> bytes:
        assert not self._is_closed
        try:
            data = self._file.read(position, length)
        except OSError as error:
            raise LogError(ErrorCode.kafka_storage_error, f"{self._file.path}: {error}") from error
        if len(data) != length:
            raise LogError(
                ErrorCode.kafka_storage_error,
                f"{self._file.path}: read {len(data)} bytes at {position}, expected {length}",
            )
        return data

    def end_offset(self) -> int:
        if not self._has_next:
            return self._until_offset
        next_at = self._start + self._length
        base_offset: int = _BASE_OFFSET.unpack(self._pread(next_at, _BASE_OFFSET.size))[0]
        return min(base_offset, self._until_offset)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._file.unpin()

    def __del__(self) -> None:
        if not self._is_closed:
            self.close()
