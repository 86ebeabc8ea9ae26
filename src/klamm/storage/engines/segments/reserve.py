"""Room on a volume for what must work when the disk is full: deletion, trimming, a clean stop.

It is a file with blocks of its own, so that nothing else on the volume can take them. A write that finds the
disk full removes the file and is repeated (`ReservedFiles`). From then on logs refuse appends; the next look,
a second later, takes back what is left, for the next deletion. When there is room for the reserve and more,
appends are accepted again. Brokers that share a folder have a reserve each: one that has not noticed yet
may use up what another one has released, and then releases its own.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from errno import EDQUOT, ENOSPC
from threading import Lock
from typing import Final

from klamm.storage.engines.segments import names
from klamm.storage.engines.segments.files import Chunk, Files, remove_if_there
from klamm.storage.log import LogDirStatus, Work

_FULL: Final = (ENOSPC, EDQUOT)
_LARGEST_SHARE: Final = 10  # of a volume: a small one is not filled by its reserve
_LOW_SHARE: Final = 16  # with less room than this part of the reserve beside it, the disk is full
_ENOUGH_SHARE: Final = 2  # with this part of it beside it, no more
_LEAST_BYTES: Final = 64 * 1024  # not worth a try

_logger = logging.getLogger(__name__)


class DiskReserve:
    """The reserve of one broker in one folder. Any thread may use it.

    The event loop does when a write finds the disk full: `release` waits for no thread that takes room.
    """

    def __init__(self, files: Files, directory: str, node_id: int, size_bytes: int) -> None:
        """With a size of 0 there is none, and the disk never counts as full."""
        self._files = files
        self.directory = directory
        self._path = f"{directory}/{names.reserve_file(node_id)}"
        self._size_bytes = size_bytes
        self._looking = Lock()  # one look at a time
        self._stating = Lock()  # for a moment
        self._releases = 0
        self.is_full = False  # appends must be refused

    @property
    def is_wanted(self) -> bool:
        return self._size_bytes > 0

    @property
    def why(self) -> str:
        """Why appends are refused, and what to do."""
        return (
            f"the disk of {self.directory} is full: delete records (klamm topics trim) or topics "
            "(klamm topics delete), or make room on it in another way; writing goes on by itself then"
        )

    def why_full(self) -> str:
        return self.why if self.is_full else ""

    def files(self) -> Files:
        """The files of the folder, for everything but the reserve."""
        return ReservedFiles(self._files, self) if self.is_wanted else self._files

    def release(self) -> None:
        """The disk is full: give back the room for what must work nevertheless."""
        if not self.is_wanted:
            return
        with self._stating:
            self._releases += 1
            self._found(is_full=True)
        remove_if_there(self._files, self._path)

    def release_if_full(self) -> None:
        """As `release`, before something is written whose failure comes too late."""
        if self.is_wanted and self._files.exists(self.directory):
            space = self._files.disk_space(self.directory)
            if 0 <= space.usable_bytes < self._share_of(space.total_bytes) // _LOW_SHARE:
                self.release()

    def with_a_look(self, work: Work | None) -> Work | None:
        """Some work, if any, and a look at the disk behind it, if there is to be a reserve."""
        if not self.is_wanted:
            return work

        def work_and_look() -> None:
            if work is not None:
                work()
            self.look()

        return work_and_look

    def status(self) -> LogDirStatus:
        """The volume. What is left on a full disk is for deletion: there is none for records."""
        try:
            space = self._files.disk_space(self.directory)
        except OSError:
            return LogDirStatus(self.directory, -1, -1, is_offline=True)
        usable_bytes = 0 if self.is_full else space.usable_bytes
        return LogDirStatus(self.directory, space.total_bytes, usable_bytes, is_offline=False)

    def look(self) -> None:
        """Take what is missing of the reserve, and find out whether the disk is full; blocks."""
        try:
            self._look()
        except OSError as error:
            _logger.warning("%s: finding out how full the disk is failed: %s", self.directory, error)

    def _look(self) -> None:
        with self._looking:
            releases = self._releases
            if not self.is_wanted:
                remove_if_there(self._files, self._path)
                return
            space = self._files.disk_space(self.directory)
            if space.usable_bytes < 0:
                return  # nobody knows: a write that fails will tell
            wanted = self._share_of(space.total_bytes)
            held = self._files.allocated(self._path)
            room = space.usable_bytes + held
            if held > wanted:  # it was larger in an earlier run
                remove_if_there(self._files, self._path)
                held = 0
            if held < wanted:
                held = self._taken(min(wanted, room))
            share = _ENOUGH_SHARE if self.is_full else _LOW_SHARE
            with self._stating:
                was_released = releases != self._releases
                if not was_released:
                    self._found(is_full=held < wanted or room < wanted + wanted // share)
            if was_released:  # meanwhile: what was taken is wanted already
                remove_if_there(self._files, self._path)

    def _share_of(self, total_bytes: int) -> int:
        return min(self._size_bytes, max(total_bytes, 0) // _LARGEST_SHARE)

    def _taken(self, size_bytes: int) -> int:
        """Take so much, or what there is; how much is held."""
        while size_bytes >= _LEAST_BYTES:
            try:
                self._files.allocate(self._path, size_bytes)
            except OSError as error:
                if error.errno not in _FULL:
                    _logger.warning("%s: making the reserve failed: %s", self._path, error)
                    break
                size_bytes //= 2  # the file system needs some of it for itself
            else:
                break
        return self._files.allocated(self._path)

    def _found(self, *, is_full: bool) -> None:
        if is_full and not self.is_full:
            _logger.error("writes are refused: %s", self.why)
        elif self.is_full and not is_full:
            _logger.info("the disk of %s has room again: writes are accepted", self.directory)
        self.is_full = is_full


class ReservedFiles:
    """The files of a folder: what finds the disk full releases the reserve, and is done again."""

    def __init__(self, files: Files, reserve: DiskReserve) -> None:
        self._files = files
        self._reserve = reserve
        # What needs no room goes to the files themselves.
        self.close = files.close
        self.duplicate = files.duplicate
        self.descriptor = files.descriptor
        self.pread = files.pread
        self.size = files.size
        self.truncate = files.truncate
        self.sync = files.sync
        self.read_file = files.read_file
        self.exists = files.exists
        self.scan = files.scan
        self.remove = files.remove
        self.remove_directory = files.remove_directory
        self.sync_directory = files.sync_directory
        self.set_modified_at = files.set_modified_at
        self.share = files.share
        self.unshare = files.unshare
        self.allocate = files.allocate
        self.allocated = files.allocated
        self.disk_space = files.disk_space
        self.handle_limit = files.handle_limit

    def open(self, path: str, *, create: bool = False) -> int:
        try:
            return self._files.open(path, create=create)
        except OSError as error:
            self._make_room(error)
            return self._files.open(path, create=create)

    def pwritev(self, handle: int, chunks: Sequence[Chunk], position: int, /) -> int:
        try:
            return self._files.pwritev(handle, chunks, position)
        except OSError as error:
            self._make_room(error)
            return self._files.pwritev(handle, chunks, position)

    def write_file(self, path: str, data: bytes, *, sync: bool) -> None:
        try:
            self._files.write_file(path, data, sync=sync)
        except OSError as error:
            self._make_room(error)
            self._files.write_file(path, data, sync=sync)

    def rename(self, source: str, target: str) -> None:
        try:
            self._files.rename(source, target)
        except OSError as error:
            self._make_room(error)
            self._files.rename(source, target)

    def make_directory(self, path: str) -> None:
        try:
            self._files.make_directory(path)
        except OSError as error:
            self._make_room(error)
            self._files.make_directory(path)

    def lock(self, path: str) -> int:
        try:
            return self._files.lock(path)
        except OSError as error:
            self._make_room(error)
            return self._files.lock(path)

    def lock_shared(self, path: str) -> int:
        try:
            return self._files.lock_shared(path)
        except OSError as error:
            self._make_room(error)
            return self._files.lock_shared(path)

    def _make_room(self, error: OSError) -> None:
        if error.errno not in _FULL or not self._reserve.is_wanted:
            raise error
        with suppress(OSError):
            self._reserve.release()
