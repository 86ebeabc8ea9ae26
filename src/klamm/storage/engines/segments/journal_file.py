"""One file of the journal, and what is under way to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from klamm.storage.engines.segments.files import Files
from klamm.storage.log import EngineLog

if TYPE_CHECKING:
    from klamm.storage.engines.segments.sync import SegmentSyncTicket


class JournaledLog(EngineLog, Protocol):
    """A log that uses the journal."""

    is_always_journaled: bool  # whatever the size of its batches

    @property
    def recovery_point(self) -> int:
        """Everything below this offset is on disk, in the segments."""
        ...

    @property
    def is_writable(self) -> bool:
        """Whether it is open and its disk has not failed."""
        ...


class JournalFile:
    """One file of the journal."""

    __slots__ = ("_due", "allocated_bytes", "end", "handle", "logs", "number", "path", "slot", "written")

    def __init__(self, slot: int, path: str, number: int, size_bytes: int) -> None:
        self.slot = slot
        self.path = path
        self.handle = -1
        self.number = number  # of its current use
        self.end = 0  # of the durable frames
        self.written = 0
        self.allocated_bytes = size_bytes
        self.logs: dict[JournaledLog, int] = {}  # the end of the batches of each log that are in this file
        self._due: deque[JournaledLog] | None = None  # of a full file: those that may be lagging

    def use(self, number: int) -> None:
        """Begin at its start, as a file of this number."""
        self.number = number
        self.end = self.written = 0
        self.logs.clear()
        self._due = None

    @property
    def is_lagging(self) -> bool:
        """Whether the segments of a log are not yet synced up to what this file holds of it."""
        self.logs = {log: end for log, end in self.logs.items() if log.recovery_point < end}
        return bool(self.logs)

    def first_lagging(self, limit: int) -> list[JournaledLog]:
        """The first logs of a full file that are lagging. The work follows what was synced since the last
        call: every flush round asks, and a file may hold thousands of logs.
        """
        if self._due is None:
            self._due = deque(self.logs)
        due = self._due
        found: list[JournaledLog] = []
        while due and len(found) < limit:
            log = due.popleft()
            if log.recovery_point >= self.logs.get(log, 0):
                self.logs.pop(log, None)
            elif log.is_writable:
                found.append(log)
        due.extendleft(reversed(found))
        return found


class JournalSync:
    """A sync of a file, and of the directories that have new names, without which the file is lost."""

    __slots__ = ("_directories", "_files", "_handle")

    def __init__(self, files: Files, file: JournalFile, directories: Sequence[str]) -> None:
        self._files = files
        self._handle = file.handle
        self._directories = directories

    def run(self) -> None:
        """Flush; blocks. Raises OSError when the disk fails."""
        self._files.sync(self._handle)
        for directory in self._directories:
            self._files.sync_directory(directory)

    def files_only(self) -> Sequence[int] | None:
        return None if self._directories else [self._handle]

    def keep_open(self) -> None:
        """The journal closes no file while one is under way."""


class JournalRound(JournalSync):
    """One frame that is on its way to the disk."""

    __slots__ = ("file", "sequence", "tickets")

    def __init__(
        self,
        files: Files,
        file: JournalFile,
        sequence: int,
        tickets: Sequence[SegmentSyncTicket],
        directories: Sequence[str],
    ) -> None:
        super().__init__(files, file, directories)
        self.file = file
        self.sequence = sequence
        self.tickets = tickets

    def write_segments(self) -> None:
        """Write the same to the logs' own files: in the turn of the loop that began the round."""
        for ticket in self.tickets:
            ticket.write_behind()
