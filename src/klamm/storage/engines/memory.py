"""Files in memory for the segment engine.

There is one implementation of a log: what is tested in memory is what runs on disks.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from errno import EEXIST, EISDIR, ENOENT, ENOTDIR, ENOTEMPTY
from itertools import count
from os import strerror

from klamm.clock import Clock
from klamm.storage.engines.segments.files import AlreadyLockedError, Chunk, DirectoryEntry, DiskSpace


class MemoryFile:
    """The content of a file; it outlives its name while a handle is open."""

    __slots__ = ("content", "modified_at_ms")

    def __init__(self, modified_at_ms: int) -> None:
        self.content = bytearray()
        self.modified_at_ms = modified_at_ms


class MemoryFiles:
    """Files in memory that behave as the operating system's, and never fail."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._names: dict[str, MemoryFile] = {}
        self._directories: set[str] = {"/"}
        self._handles: dict[int, MemoryFile] = {}
        self._locks: dict[int, str] = {}
        self._shared: set[int] = set()  # of the locks
        self._numbers = count(3)

    # -- open files

    def open(self, path: str, *, create: bool = False) -> int:
        file = self._names.get(path)
        if file is None:
            if not create:
                raise os_error(ENOENT, path)
            file = self._create(path)
        handle = next(self._numbers)
        self._handles[handle] = file
        return handle

    def close(self, handle: int) -> None:
        del self._handles[handle]
        self._locks.pop(handle, None)
        self._shared.discard(handle)

    def duplicate(self, handle: int) -> int:
        file = self._handles[handle]
        duplicate = next(self._numbers)
        self._handles[duplicate] = file
        return duplicate

    def descriptor(self, handle: int) -> int | None:
        return None

    def pread(self, handle: int, length: int, position: int, /) -> bytes:
        return bytes(memoryview(self._handles[handle].content)[position : position + length])

    def pwritev(self, handle: int, chunks: Sequence[Chunk], position: int, /) -> int:
        file = self._handles[handle]
        start = position
        for chunk in chunks:
            self._write(file, position, chunk)
            position += len(chunk)
        return position - start

    def _write(self, file: MemoryFile, position: int, chunk: Chunk) -> None:
        content = file.content
        if position > len(content):
            content.extend(bytes(position - len(content)))
        content[position : position + len(chunk)] = chunk
        file.modified_at_ms = self._clock.timestamp_ms()

    def size(self, handle: int) -> int:
        return len(self._handles[handle].content)

    def truncate(self, handle: int, length: int) -> None:
        self._truncate(self._handles[handle], length)

    def _truncate(self, file: MemoryFile, length: int) -> None:
        if length < len(file.content):
            del file.content[length:]
        else:
            file.content.extend(bytes(length - len(file.content)))
        file.modified_at_ms = self._clock.timestamp_ms()

    def sync(self, handle: int) -> None:
        assert handle in self._handles

    # -- whole files

    def read_file(self, path: str) -> bytes:
        return bytes(self._file(path).content)

    def write_file(self, path: str, data: bytes, *, sync: bool) -> None:
        handle = self.open(path, create=True)
        try:
            self.truncate(handle, 0)
            written = 0
            while written < len(data):
                written += self.pwritev(handle, [data[written:]], written)
            if sync:
                self.sync(handle)
        finally:
            self.close(handle)

    def set_modified_at(self, path: str, modified_at_ms: int) -> None:
        self._file(path).modified_at_ms = modified_at_ms

    def _file(self, path: str) -> MemoryFile:
        file = self._names.get(path)
        if file is None:
            raise os_error(EISDIR if path in self._directories else ENOENT, path)
        return file

    # -- names

    def exists(self, path: str) -> bool:
        return path in self._names or path in self._directories

    def scan(self, path: str) -> list[DirectoryEntry]:
        if path not in self._directories:
            raise os_error(ENOENT, path)
        prefix = path.rstrip("/") + "/"
        # Copied in one step each: a cleaner scans on its thread while files of its log change.
        entries = [
            DirectoryEntry(name[len(prefix) :], False, len(file.content), file.modified_at_ms)
            for name, file in list(self._names.items())
            if name.startswith(prefix) and "/" not in name[len(prefix) :]
        ]
        entries += [
            DirectoryEntry(name[len(prefix) :], True, 0, 0)
            for name in list(self._directories)
            if name.startswith(prefix) and name != prefix and "/" not in name[len(prefix) :]
        ]
        return sorted(entries)

    def _create(self, path: str) -> MemoryFile:
        if parent(path) not in self._directories:
            raise os_error(ENOENT, path)
        file = MemoryFile(self._clock.timestamp_ms())
        self._names[path] = file
        return file

    def rename(self, source: str, target: str) -> None:
        if not self.exists(source) or parent(target) not in self._directories:
            raise os_error(ENOENT, source)
        if source in self._directories and self.exists(target):
            raise os_error(EEXIST, target)
        move(self._names, self._directories, source, target)

    def remove(self, path: str) -> None:
        self._file(path)
        del self._names[path]

    def make_directory(self, path: str) -> None:
        if path in self._names:
            raise os_error(ENOTDIR, path)
        if path not in self._directories:
            self.make_directory(parent(path))
            self._directories.add(path)

    def remove_directory(self, path: str) -> None:
        if self.scan(path):
            raise os_error(ENOTEMPTY, path)
        self._directories.remove(path)

    def sync_directory(self, path: str) -> None:
        if path not in self._directories:
            raise os_error(ENOENT, path)

    def lock(self, path: str) -> int:
        if path in self._locks.values():
            raise AlreadyLockedError(f"{path} is locked by another process")
        handle = self.open(path, create=True)
        self._locks[handle] = path
        return handle

    def lock_shared(self, path: str) -> int:
        if any(held == path and handle not in self._shared for handle, held in self._locks.items()):
            raise AlreadyLockedError(f"{path} is locked by another process")
        handle = self.open(path, create=True)
        self._locks[handle] = path
        self._shared.add(handle)
        return handle

    def share(self, handle: int) -> None:
        self._shared.add(handle)

    def unshare(self, handle: int) -> bool:
        if list(self._locks.values()).count(self._locks[handle]) > 1:
            return False
        self._shared.discard(handle)
        return True

    def allocate(self, path: str, size_bytes: int) -> None:
        handle = self.open(path, create=True)
        try:
            while (length := self.size(handle)) < size_bytes:
                self.pwritev(handle, [bytes(size_bytes - length)], length)
        finally:
            self.close(handle)

    def allocated(self, path: str) -> int:
        file = self._names.get(path)
        return 0 if file is None else len(file.content)

    def disk_space(self, path: str) -> DiskSpace:
        return DiskSpace(-1, -1)

    def handle_limit(self) -> int:
        return sys.maxsize


def parent(path: str) -> str:
    """The directory that a path is in."""
    return path.rpartition("/")[0] or "/"


def move(names: dict[str, MemoryFile], directories: set[str], source: str, target: str) -> None:
    """Rename a file, or a directory with its content."""
    if source in names:
        names[target] = names.pop(source)
        return
    prefix = source + "/"
    for name in [name for name in list(names) if name.startswith(prefix)]:
        if (file := names.pop(name, None)) is not None:  # else a cleaner has removed it concurrently
            names[target + name[len(source) :]] = file
    for name in [name for name in list(directories) if name == source or name.startswith(prefix)]:
        directories.remove(name)
        directories.add(target + name[len(source) :])


def os_error(number: int, path: str) -> OSError:
    """The error that the operating system would raise."""
    return OSError(number, strerror(number), path)
