"""Repairing a log that was cut, or where a failed write left bytes behind the end.

What is gone must be gone durably before anything is written in its place: a crash may lose the next write
there and keep a later one, and the bytes under it must then not be a batch of another history. Until a ticket
of the repair has run the log refuses appends. Files are changed when the ticket is made; it only syncs, so
that one which comes late harms nobody.
"""

from __future__ import annotations

from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING

from klamm.storage.engines.segments.chain import SegmentChain
from klamm.storage.engines.segments.segment import Segment

if TYPE_CHECKING:
    from klamm.storage.engines.segments.files import Files


class Stage(Enum):
    """What is to be done next."""

    DONE = "nothing"
    NAMES = "sync the directory: segments behind the cut have other names, and the file is cut after them"
    FILE = "cut the file"
    SYNC = "sync the file"


class RepairTicket:
    """A sync of what was cut; nothing more of the log is durable afterwards."""

    __slots__ = ("_directory", "_files", "_handle", "_is_kept", "end_offset", "number")

    journal = None
    is_journaled = False

    def __init__(
        self, files: Files, end_offset: int, number: int, *, handle: int = -1, directory: str = ""
    ) -> None:
        """Of the file behind a handle, or of a directory."""
        self._files = files
        self._handle = handle
        self._directory = directory
        self._is_kept = False
        self.end_offset = end_offset  # of what is durable
        self.number = number

    def keep_open(self) -> None:
        if self._handle >= 0:
            self._handle = self._files.duplicate(self._handle)
            self._is_kept = True

    def run(self) -> None:
        """Flush; blocks. Raises OSError when the disk fails."""
        try:
            if self._handle >= 0:
                self._files.sync(self._handle)
            else:
                with suppress(FileNotFoundError):  # deleted meanwhile
                    self._files.sync_directory(self._directory)
        finally:
            self.release()

    def files_only(self) -> list[int] | None:
        return [self._handle] if self._handle >= 0 else None

    def release(self) -> None:
        """Close what was kept open; safe to call twice."""
        if self._is_kept:
            self._is_kept = False
            with suppress(OSError):  # it was used only to sync, whose error was reported
                self._files.close(self._handle)


class Repair:
    """The repair of one log, if any is due."""

    __slots__ = ("_chain", "_number", "_segment", "_stage")

    def __init__(self, chain: SegmentChain) -> None:
        self._chain = chain
        self._segment: Segment = chain.active
        self._stage = Stage.DONE
        self._number = 0  # of the last change: tickets of earlier ones count no more

    @property
    def is_due(self) -> bool:
        return self._stage is not Stage.DONE

    def cut(self, *, has_old_names: bool) -> None:
        """The log was cut where its active segment ends now. Raises OSError.

        Names of files behind the cut go first, if there were any: a crash on the way must leave a longer log,
        never one with a gap.
        """
        self._segment = self._chain.active
        self._move_to(Stage.NAMES if has_old_names or self._stage is Stage.NAMES else Stage.FILE)
        self._cut_file()

    def cut_tail(self) -> None:
        """A failed write left bytes behind the end. Raises OSError; then it is done with the ticket."""
        if self._stage is not Stage.NAMES:
            self._segment = self._chain.active
            self._move_to(Stage.FILE)
            self._cut_file()

    def sync_failed(self) -> None:
        """Any sync of the log failed: the system may have forgotten that the file was cut."""
        if self._stage is Stage.SYNC:
            self._move_to(Stage.FILE)

    def start(self, durable_offset: int) -> RepairTicket:
        """The next ticket. Raises OSError."""
        chain = self._chain
        if self._segment not in chain.segments:  # deleted or compacted meanwhile, with all that it had
            self._segment = chain.active
        self._cut_file()
        if self._stage is Stage.SYNC:
            return RepairTicket(chain.files, durable_offset, self._number, handle=self._segment.handle())
        return RepairTicket(chain.files, durable_offset, self._number, directory=chain.directory)

    def finish(self, ticket: RepairTicket) -> None:
        """A ticket succeeded; another one may be due."""
        ticket.release()
        if ticket.number == self._number:
            self._move_to(Stage.FILE if self._stage is Stage.NAMES else Stage.DONE)

    def _move_to(self, stage: Stage) -> None:
        self._stage = stage
        self._number += 1

    def _cut_file(self) -> None:
        if self._stage is Stage.FILE:
            self._segment.cut_file()
            self._move_to(Stage.SYNC)
