"""The file operations of the segment engine, so that a simulated disk can replace the real one.

Handles are plain numbers. Positions are always given: no handle has a cursor that a failed write could
leave in the wrong place.
"""

from __future__ import annotations

import fcntl
import os
import resource
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

Chunk = bytes | bytearray | memoryview

_SECTOR_BYTES: Final = 512  # what a disk writes as a whole
_BLOCK_BYTES: Final = 512  # the unit of st_blocks, whatever the file system's blocks are
_ALLOCATED_BYTES: Final = 1024 * 1024


class DirectoryEntry(NamedTuple):
    """One name in a directory."""

    name: str
    is_directory: bool
    size_bytes: int
    modified_at_ms: int  # wall clock


class DiskSpace(NamedTuple):
    """The size and free space of the volume under a directory."""

    total_bytes: int
    usable_bytes: int


class AlreadyLockedError(OSError):
    """Another process holds the lock."""


class Files(Protocol):
    """The file operations that the engine uses. Everything raises OSError as the os module does."""

    def open(self, path: str, *, create: bool = False) -> int:
        """A handle for reading and writing."""
        ...

    def close(self, handle: int) -> None: ...
    def duplicate(self, handle: int) -> int:
        """A second handle of the same file, to be closed separately."""
        ...

    def descriptor(self, handle: int) -> int | None:
        """The operating system's number for an open file; None when the file exists only in memory."""
        ...

    def pread(self, handle: int, length: int, position: int, /) -> bytes:
        """At most `length` bytes; fewer only at the end of the file."""
        ...

    def pwritev(self, handle: int, chunks: Sequence[Chunk], position: int, /) -> int:
        """Write chunks one after the other; how many bytes were written, which may be fewer than given."""
        ...

    def size(self, handle: int) -> int: ...
    def truncate(self, handle: int, length: int) -> None: ...
    def sync(self, handle: int) -> None:
        """Return when the file's bytes and length are on disk."""
        ...

    def read_file(self, path: str) -> bytes: ...
    def write_file(self, path: str, data: bytes, *, sync: bool) -> None:
        """Make the file hold exactly these bytes. Not atomic: see `write_aside`."""
        ...

    def exists(self, path: str) -> bool: ...
    def scan(self, path: str) -> list[DirectoryEntry]: ...
    def rename(self, source: str, target: str) -> None:
        """Atomic; replaces a file of the target's name."""
        ...

    def remove(self, path: str) -> None: ...
    def make_directory(self, path: str) -> None:
        """Create it and its parents, unless they exist."""
        ...

    def remove_directory(self, path: str) -> None: ...
    def sync_directory(self, path: str) -> None:
        """Return when the names in a directory are on disk."""
        ...

    def set_modified_at(self, path: str, modified_at_ms: int) -> None: ...
    def lock(self, path: str) -> int:
        """Take a lock that other processes see, until its handle is closed; AlreadyLockedError."""
        ...

    def lock_shared(self, path: str) -> int:
        """As `lock`, but others may have the same kind of lock."""
        ...

    def share(self, handle: int) -> None:
        """Turn an exclusive lock into a shared one."""
        ...

    def unshare(self, handle: int) -> bool:
        """Turn a shared lock into an exclusive one; False if another process shares it."""
        ...

    def allocate(self, path: str, size_bytes: int) -> None:
        """Make a file this long, or leave it longer, with blocks on the disk that are its own."""
        ...

    def allocated(self, path: str) -> int:
        """How many bytes of the disk a file has; 0 if it does not exist."""
        ...

    def disk_space(self, path: str) -> DiskSpace: ...
    def handle_limit(self) -> int:
        """How many files this process may have open at once, its connections included."""
        ...


class OsFiles:
    """The operating system's files. The hot calls are the os module's own functions."""

    close = staticmethod(os.close)
    duplicate = staticmethod(os.dup)
    pread = staticmethod(os.pread)
    pwritev = staticmethod(os.pwritev)
    truncate = staticmethod(os.ftruncate)
    # A log needs its bytes and its length on disk; macOS has no fdatasync.
    sync = staticmethod(getattr(os, "fdatasync", os.fsync))
    exists = staticmethod(os.path.exists)
    rename = staticmethod(os.replace)
    remove = staticmethod(os.unlink)
    remove_directory = staticmethod(os.rmdir)

    def open(self, path: str, *, create: bool = False) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC
        return os.open(path, flags | os.O_CREAT if create else flags, 0o644)

    def descriptor(self, handle: int) -> int | None:
        return handle

    def size(self, handle: int) -> int:
        return os.fstat(handle).st_size

    def read_file(self, path: str) -> bytes:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(handle, os.fstat(handle).st_size)
        finally:
            os.close(handle)

    def write_file(self, path: str, data: bytes, *, sync: bool) -> None:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(handle, rest) :]
            if sync:
                os.fsync(handle)
        finally:
            os.close(handle)

    def scan(self, path: str) -> list[DirectoryEntry]:
        entries = []
        with os.scandir(path) as scanned:
            for entry in scanned:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # another thread removed it meanwhile
                entries.append(
                    DirectoryEntry(
                        entry.name, entry.is_dir(), status.st_size, status.st_mtime_ns // 1_000_000
                    )
                )
        return entries

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def sync_directory(self, path: str) -> None:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def set_modified_at(self, path: str, modified_at_ms: int) -> None:
        os.utime(path, ns=(modified_at_ms * 1_000_000, modified_at_ms * 1_000_000))

    def lock(self, path: str) -> int:
        return self._locked(path, fcntl.LOCK_EX)

    def lock_shared(self, path: str) -> int:
        return self._locked(path, fcntl.LOCK_SH)

    def _locked(self, path: str, kind: int) -> int:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # The first lock keeps out a second store of this process, the second is the one that Kafka uses.
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
            fcntl.lockf(handle, kind | fcntl.LOCK_NB)
            # The last process to close the directory removes the file.
            is_current = os.stat(path).st_ino == os.fstat(handle).st_ino
        except OSError as error:
            os.close(handle)
            raise AlreadyLockedError(f"{path} is locked by another process") from error
        if not is_current:
            os.close(handle)
            raise AlreadyLockedError(f"{path} was removed by another process")
        return handle

    def share(self, handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_SH)
        fcntl.lockf(handle, fcntl.LOCK_SH)

    def unshare(self, handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def allocate(self, path: str, size_bytes: int) -> None:
        handle = self.open(path, create=True)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(handle, 0, size_bytes)
            else:  # macOS; what can be compressed would take no room
                for position in range(os.fstat(handle).st_size, size_bytes, _ALLOCATED_BYTES):
                    os.pwrite(handle, os.urandom(min(_ALLOCATED_BYTES, size_bytes - position)), position)
        finally:
            os.close(handle)

    def allocated(self, path: str) -> int:
        try:
            return os.stat(path).st_blocks * _BLOCK_BYTES
        except FileNotFoundError:
            return 0

    def disk_space(self, path: str) -> DiskSpace:
        status = os.statvfs(path)
        return DiskSpace(status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize)

    def handle_limit(self) -> int:
        soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return soft_limit if soft_limit != resource.RLIM_INFINITY else sys.maxsize


def write_aside(files: Files, path: str, data: bytes, *, sync: bool) -> None:
    """Replace a small file whole: readers see the old content or the new, a crash leaves one of them."""
    files.write_file(path + ".tmp", data, sync=sync)
    files.rename(path + ".tmp", path)


def overwrite(files: Files, path: str, data: bytes) -> bool:
    """Replace the content of a small file in place; False, and nothing is done, if its length differs.

    Not durable. Within a sector a crash leaves the old content or the new. Much cheaper than a rename over a
    file, for which some file systems wait until the new content is on disk.
    """
    if len(data) > _SECTOR_BYTES:
        return False
    try:
        handle = files.open(path)
    except FileNotFoundError:
        return False
    try:
        return files.size(handle) == len(data) and files.pwritev(handle, [data], 0) == len(data)
    finally:
        files.close(handle)


def remove_if_there(files: Files, path: str) -> None:
    """Remove a file, if it exists."""
    try:
        files.remove(path)
    except FileNotFoundError:
        return


def remove_tree(files: Files, path: str) -> None:
    """Remove a directory and everything in it; missing files are ignored."""
    try:
        entries = files.scan(path)
    except FileNotFoundError:
        return
    for entry in entries:
        inner = f"{path}/{entry.name}"
        if entry.is_directory:
            remove_tree(files, inner)
        else:
            remove_if_there(files, inner)
    files.remove_directory(path)
