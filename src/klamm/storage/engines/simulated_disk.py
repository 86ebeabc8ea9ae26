"""A disk that loses, tears and rejects writes, for simulations and fault tests.

When the power fails, unsynced writes are kept, lost or torn, sector by sector and in any order; names are
restored as of some moment since their directory was synced. The random generator is an argument, so a failing
run can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from errno import EIO, ENOSPC
from random import Random
from typing import Final, Literal

from klamm.clock import Clock
from klamm.storage.engines.memory import MemoryFile, MemoryFiles, move, os_error, parent
from klamm.storage.engines.segments.files import Chunk, DiskSpace

_SECTOR_BYTES: Final = 512

Operation = Literal["write", "truncate", "sync", "create", "rename", "remove", "sync_directory"]


class PowerLossError(Exception):
    """The machine is off: no call succeeds until `SimulatedFiles.crash` has turned it on again."""


@dataclass(slots=True, eq=False)  # one that is removed is this one, and not one like it
class FailingOperation:
    """The next operation of a kind fails, after letting some through."""

    operation: Operation
    let_through: int = 0
    error_number: int = EIO
    is_lasting: bool = False  # every later one fails too, until the fault is removed
    happens: Callable[[str], bool] = lambda _path: True  # asked for each operation, with its path


@dataclass(slots=True)
class _Change:
    """One change of a file's bytes, with the data to undo and redo it."""

    position: int
    old: bytes  # what the bytes from the position on were, as far as the change reaches
    old_length: int
    new: bytes | None  # None: the file was cut or extended to `position`
    state: Literal["pending", "durable", "refused"] = "pending"


@dataclass(slots=True)
class _NameChange:
    """One change of a name."""

    operation: Literal["create", "rename", "remove", "make", "unmake"]
    path: str
    target: str = ""
    file: MemoryFile | None = None


@dataclass(slots=True)
class Counters:
    """How often each kind of operation was called."""

    by_operation: dict[str, int] = field(default_factory=dict)
    total: int = 0


class SimulatedFiles(MemoryFiles):
    """Files on a disk that can fail and lose power."""

    def __init__(self, random: Random, clock: Clock, *, capacity_bytes: int | None = None) -> None:
        super().__init__(clock)
        self._random = random
        self.capacity_bytes = capacity_bytes
        self.faults: list[FailingOperation] = []
        self.counters = Counters()
        self.power_fails_at: int | None = None  # when `counters.total` gets there
        self._is_off = False
        self._changes: dict[MemoryFile, list[_Change]] = {}
        self._durable_names: dict[str, MemoryFile] = {}
        self._durable_directories: set[str] = {"/"}
        self._name_changes: list[_NameChange] = []

    def _asked(self, operation: Operation, on: str | MemoryFile) -> None:
        """Count a modifying operation on a path or an open file; raise the fault that is due."""
        self._check_power()
        self.counters.by_operation[operation] = self.counters.by_operation.get(operation, 0) + 1
        self.counters.total += 1
        if self.power_fails_at is not None and self.counters.total >= self.power_fails_at:
            self._is_off = True
            raise PowerLossError
        if not self.faults:
            return
        path = on if isinstance(on, str) else self._path_of(on)
        for fault in tuple(self.faults):
            if fault.operation != operation:
                continue
            if fault.let_through:
                fault.let_through -= 1
                continue
            if not fault.happens(path):
                continue
            if not fault.is_lasting:
                self.faults.remove(fault)
            raise os_error(fault.error_number, path)

    def _path_of(self, file: MemoryFile) -> str:
        """Where an open file is now: its directory may have been renamed."""
        return next((path for path, each in list(self._names.items()) if each is file), "a removed file")

    def _check_power(self) -> None:
        if self._is_off:
            raise PowerLossError

    # -- bytes

    def pread(self, handle: int, length: int, position: int, /) -> bytes:
        self._check_power()
        return super().pread(handle, length, position)

    def read_file(self, path: str) -> bytes:
        self._check_power()
        return super().read_file(path)

    def pwritev(self, handle: int, chunks: Sequence[Chunk], position: int, /) -> int:
        data = b"".join(chunks)
        file = self._handles[handle]
        try:
            self._asked("write", file)
        except (PowerLossError, OSError):
            # Part of it, or even all, may have been written, as on a real disk.
            partial = self._random.randrange(len(data) + 1)
            self._change(file, position, data[: self._random.choice((0, partial, len(data)))])
            raise
        if self.capacity_bytes is not None:
            room = self.capacity_bytes - self._used_bytes()
            growth = position + len(data) - max(len(file.content), position)
            if growth > room:
                data = data[: max(len(data) - growth + room, 0)]
                if not data:
                    raise os_error(ENOSPC, "a file")
        self._change(file, position, data)
        return len(data)

    def _change(self, file: MemoryFile, position: int, data: bytes) -> None:
        old = bytes(file.content[position : position + len(data)])
        self._changes.setdefault(file, []).append(_Change(position, old, len(file.content), data))
        self._write(file, position, data)

    def truncate(self, handle: int, length: int) -> None:
        file = self._handles[handle]
        self._asked("truncate", file)
        old = bytes(file.content[length:])
        self._changes.setdefault(file, []).append(_Change(length, old, len(file.content), None))
        self._truncate(file, length)

    def sync(self, handle: int) -> None:
        file = self._handles[handle]
        try:
            self._asked("sync", file)
        except OSError:
            # The kernel marks these pages clean: a later sync does not write them either.
            for change in self._changes.get(file, []):
                if change.state == "pending":
                    change.state = "refused"
            raise
        changes = self._changes.get(file, [])
        if any(change.state == "refused" for change in changes):
            for change in changes:
                if change.state == "pending":
                    change.state = "durable"
        else:
            self._changes.pop(file, None)

    def _used_bytes(self) -> int:
        return sum(len(file.content) for file in self._names.values())

    # -- names

    def open(self, path: str, *, create: bool = False) -> int:
        self._check_power()
        return super().open(path, create=create)

    def _create(self, path: str) -> MemoryFile:
        self._asked("create", path)
        file = super()._create(path)
        self._name_changes.append(_NameChange("create", path, file=file))
        return file

    def rename(self, source: str, target: str) -> None:
        if self.exists(source):
            self._asked("rename", source)
        super().rename(source, target)
        self._name_changes.append(_NameChange("rename", source, target))

    def remove(self, path: str) -> None:
        if self.exists(path):
            self._asked("remove", path)
        super().remove(path)
        self._name_changes.append(_NameChange("remove", path))

    def make_directory(self, path: str) -> None:
        self._check_power()
        is_new = path not in self._directories
        super().make_directory(path)
        if is_new:
            self._name_changes.append(_NameChange("make", path))

    def remove_directory(self, path: str) -> None:
        self._check_power()
        super().remove_directory(path)
        self._name_changes.append(_NameChange("unmake", path))

    def sync_directory(self, path: str) -> None:
        self._asked("sync_directory", path)
        super().sync_directory(path)
        kept = []
        for change in self._name_changes:
            # Earlier changes of the name move with it: they belong to another directory.
            made_room = change.operation == "rename" and change.path == path
            if parent(change.path) == path or made_room:
                _apply(change, self._durable_names, self._durable_directories)
            else:
                kept.append(change)
        self._name_changes = kept

    def disk_space(self, path: str) -> DiskSpace:
        if self.capacity_bytes is None:
            return DiskSpace(-1, -1)
        return DiskSpace(self.capacity_bytes, max(self.capacity_bytes - self._used_bytes(), 0))

    # -- power

    def kill(self) -> None:
        """Kill the process only: handles and locks are lost, all bytes are kept."""
        self.faults.clear()
        self._handles.clear()
        self._locks.clear()
        self._shared.clear()

    def crash(self) -> None:
        """Cut the power: handles and locks are lost, and unsynced writes at random."""
        self._is_off = False
        self.power_fails_at = None
        self.kill()
        keep_chance = self._random.choice((0.0, 0.5, 0.9, 1.0))
        for file, changes in self._changes.items():
            self._lose(file, changes, keep_chance)
        self._changes.clear()
        # Names are journalled: a prefix of the changes is kept.
        kept = self._name_changes[: self._random.randint(0, len(self._name_changes))]
        for change in kept:
            _apply(change, self._durable_names, self._durable_directories)
        self._name_changes.clear()
        # A name in a directory that does not exist cannot be found.
        self._durable_names = {
            name: file
            for name, file in self._durable_names.items()
            if parent(name) in self._durable_directories
        }
        self._names = dict(self._durable_names)
        self._directories = set(self._durable_directories)

    def _lose(self, file: MemoryFile, changes: Sequence[_Change], keep_chance: float) -> None:
        """Restore the durable content, then apply the writes that were kept."""
        content = file.content
        for change in reversed(changes):
            if change.new is None:
                del content[change.position :]
                content += change.old
            else:
                content[change.position : change.position + len(change.new)] = change.old
            assert len(content) == change.old_length
        for change in changes:
            is_kept = change.state == "durable"
            if change.new is None:
                if is_kept or self._random.random() < keep_chance:
                    self._truncate(file, change.position)
                continue
            start = change.position
            while start < change.position + len(change.new):
                end = (start // _SECTOR_BYTES + 1) * _SECTOR_BYTES
                if is_kept or self._random.random() < keep_chance:
                    self._write(file, start, change.new[start - change.position : end - change.position])
                start = end


def _apply(change: _NameChange, names: dict[str, MemoryFile], directories: set[str]) -> None:
    """Apply a change of names, if it is still possible."""
    if change.operation == "make":
        directories.add(change.path)
    elif change.operation == "unmake":
        directories.discard(change.path)
    elif change.operation == "remove":
        names.pop(change.path, None)
    elif change.operation == "rename":
        if change.path in names or change.path in directories:
            move(names, directories, change.path, change.target)
    elif change.file is not None:
        names[change.path] = change.file
