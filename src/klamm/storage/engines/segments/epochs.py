"""The leader epochs of a log and the offset at which each began."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from threading import Lock
from typing import Final, NamedTuple

from klamm.protocol.errors import DecodeError
from klamm.storage.engines.segments import names
from klamm.storage.engines.segments.files import Files, remove_if_there
from klamm.storage.log import EpochEnd

_VERSION: Final = "0"
_NO_EPOCH: Final = -1


class EpochEntry(NamedTuple):
    """A leadership and the first offset it could write."""

    epoch: int
    start_offset: int


class LeaderEpochs:
    """The epochs of one log, oldest first; epochs and starts rise together.

    The flush that makes records durable writes the checkpoint too. Batches after the last flush carry their
    epochs, so a crash loses nothing.
    """

    __slots__ = ("_entries", "_has_changed", "_is_retired", "_naming", "_saved", "path", "writer")

    def __init__(self, path: str, entries: list[EpochEntry], *, is_saved: bool = False) -> None:
        self.path = path
        self.writer = ""  # whose the log is, as a part of a file's name
        self._naming = Lock()
        self._is_retired = False
        self._entries = entries
        self._saved = encode_epochs(entries) if is_saved else b""
        self._has_changed = not is_saved  # perhaps; when not, `_saved` is what there is

    @classmethod
    def load(cls, files: Files, path: str) -> LeaderEpochs | None:
        """The content of the checkpoint; None when it is missing or unreadable."""
        try:
            return cls(path, decode_epochs(files.read_file(path)), is_saved=True)
        except (FileNotFoundError, DecodeError):
            return None

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    @property
    def latest_epoch(self) -> int:
        """The newest epoch; -1 without any."""
        return self._entries[-1].epoch if self._entries else -1

    def assign(self, epoch: int, start_offset: int) -> None:
        """Add an epoch that begins at an offset; conflicting entries are removed."""
        entries = self._entries
        if entries and entries[-1].epoch == epoch and entries[-1].start_offset <= start_offset:
            return
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        self._has_changed = True

    def replay(self, epoch: int, start_offset: int) -> None:
        """A batch of an epoch was found in the log."""
        if epoch > self.latest_epoch:
            self.assign(epoch, start_offset)

    def truncate_end(self, next_offset: int) -> None:
        """The log was cut: remove entries that begin at or above its new end."""
        self._entries = [entry for entry in self._entries if entry.start_offset < next_offset]
        self._has_changed = True

    def truncate_start(self, start_offset: int) -> None:
        """The log start rose: the entry that covers it now begins there."""
        covering = bisect_right(self._entries, start_offset, key=_start) - 1
        if covering < 0 or self._entries[0].start_offset == start_offset:
            return
        moved = self._entries[covering]._replace(start_offset=start_offset)
        self._entries = [moved, *self._entries[covering + 1 :]]
        self._has_changed = True

    def at(self, offset: int) -> int:
        """The epoch that an offset was written in; -1 below the oldest."""
        covering = bisect_right(self._entries, offset, key=_start) - 1
        return self._entries[covering].epoch if covering >= 0 else -1

    def end_of(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Where an epoch ended."""
        entries = self._entries
        if not entries or epoch == _NO_EPOCH or epoch > entries[-1].epoch:
            return EpochEnd()
        if epoch == entries[-1].epoch:
            return EpochEnd(epoch, log_end_offset)
        if epoch < entries[0].epoch:
            return EpochEnd(epoch, entries[0].start_offset)
        found = bisect_right(entries, epoch, key=_epoch) - 1
        return EpochEnd(entries[found].epoch, entries[found + 1].start_offset)

    def unsaved(self) -> bytes | None:
        """The entries that the checkpoint file lacks; None when it is up to date."""
        if not self._has_changed:
            return None
        encoded = encode_epochs(self._entries)
        self._has_changed = encoded != self._saved
        return encoded if self._has_changed else None

    def write(self, files: Files, encoded: bytes) -> None:
        """Replace the checkpoint file, durably but for its name; blocks, on any thread. Raises OSError."""
        written = f"{self.path}.{self.writer}{names.TEMPORARY_SUFFIX}"
        files.write_file(written, encoded, sync=True)
        with self._naming:
            if not self._is_retired:
                files.rename(written, self.path)
                return
        remove_if_there(files, written)

    def retire(self) -> None:
        """The directory may have another log from now on: a write that is under way must not meet it."""
        with self._naming:  # for no longer than a rename
            self._is_retired = True

    def saved(self, encoded: bytes) -> None:
        """Record what the checkpoint file durably holds."""
        self._saved = encoded
        self._has_changed = True


def _start(entry: EpochEntry) -> int:
    return entry.start_offset


def _epoch(entry: EpochEntry) -> int:
    return entry.epoch


def encode_epochs(entries: list[EpochEntry]) -> bytes:
    """The checkpoint's text: version, count, then a line for each entry."""
    lines = [_VERSION, str(len(entries)), *(f"{entry.epoch} {entry.start_offset}" for entry in entries)]
    return ("\n".join(lines) + "\n").encode()


def decode_epochs(data: bytes) -> list[EpochEntry]:
    """The entries of a checkpoint; DecodeError when it is not whole or not one."""
    try:
        version, count, *lines = data.decode("ascii").splitlines()
        entries = [EpochEntry(*map(int, line.split(" "))) for line in lines]
        is_whole = version == _VERSION and int(count) == len(entries)
    except (ValueError, TypeError) as error:
        raise DecodeError(f"invalid leader epoch checkpoint: {error}") from error
    if not is_whole:
        raise DecodeError(f"invalid leader epoch checkpoint: version {version}, {count} entries")
    for before, after in pairwise(entries):
        if after.epoch <= before.epoch or after.start_offset < before.start_offset:
            raise DecodeError(f"invalid leader epoch checkpoint: {after} follows {before}")
    return entries
