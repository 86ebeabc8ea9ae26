"""Durability: append, after what, tell me when it is durable.

A log makes a ticket for everything that it has appended and not flushed. The rounds of its store take tickets
of many logs, and report what became of each. Some tickets come after others: no crash leaves them without
those. How that is done is the engine's own business: a journal, files one by one, a statement.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

# Files are flushed in parallel: the disk writes its journal once for concurrent flushes. On one
# SSD, flushing 32 files needs 78 ms one after the other and 4 ms in eight lanes.
LANES: Final = 8


class Background(NamedTuple):
    """Where the rounds of a broker run."""

    loop: AbstractEventLoop
    # Runs what blocks on a disk or a database outside the event loop; in a simulation, at once.
    run: Callable[[Callable[[], Sequence[Exception | None]]], Awaitable[Sequence[Exception | None]]]
    may_ask_kernel: bool = False  # to flush files, and to have the loop watch it


class LostLogError(Exception):
    """After a failed flush it is not known what a log has on disk: it must not be used any more."""


class SyncTicket(Protocol):
    """A flush of everything that a log has appended up to `end_offset`."""

    end_offset: int

    def run(self) -> None:
        """Flush; blocks. Raises OSError when the disk fails."""
        ...

    def keep_open(self) -> None:
        """Must be called by its creator if it does not run at once: else the log may close its files."""
        ...


class HeldBack(Protocol):
    """Batches of a log that may only be durable together with those of another log, or after them.

    They reach the disk in a round that survives a crash as a whole or not at all.
    """

    @property
    def is_active(self) -> bool:
        """Whether appends are held back: until they are flushed, memory has the only copy."""
        ...

    def begin(self) -> None:
        """Hold back what is appended from now on."""
        ...

    def end(self) -> None:
        """Nothing has to be held back any more."""
        ...


class DurableLog(Protocol):
    """What makes a log durable."""

    held_back: HeldBack | None  # None: it cannot hold anything back
    flush_soon: Callable[[], None]  # called when it needs a ticket to run though nothing was appended

    @property
    def high_watermark(self) -> int: ...
    @property
    def is_dirty(self) -> bool:
        """Whether something appended is not yet durable."""
        ...

    @property
    def is_being_repaired(self) -> bool:
        """Whether appends are refused until a ticket has run, because of a failed write or flush."""
        ...

    def start_sync(self) -> SyncTicket | None:
        """A ticket for everything unflushed, or one that repairs the log; None when all is durable."""
        ...

    def start_segment_sync(self) -> SyncTicket | None:
        """A ticket for what is durable only in a file that logs share."""
        ...

    def finish_sync(self, ticket: SyncTicket) -> None:
        """The ticket succeeded: raise the high watermark, or take appends again."""
        ...

    def fail_sync(self, ticket: SyncTicket) -> None:
        """The ticket failed: cut back to the last durable offset and reload producer state.

        What the ticket made durable before it failed stays. Raises LogError, and takes nothing any more, if
        that was to repair it.
        """
        ...

    def truncate(self, to_offset: int) -> None:
        """Cut everything at and above an offset and rebuild producer state."""
        ...


# What became of tickets: None, or why it is not durable. LogError(not_leader_or_follower): the log has
# another epoch, this one takes no more appends.
Outcomes: TypeAlias = Sequence[tuple[SyncTicket, Exception | None]]
Report: TypeAlias = Callable[[Outcomes], None]


class SyncRounds(Protocol):
    """Makes tickets of a store's logs durable, for one broker. Every outcome is reported once, and later."""

    is_slow: bool  # a round takes so long that waiting for more appends may pay
    journal_rounds: int  # so many were one write for many logs

    @property
    def is_busy(self) -> bool:
        """Whether logs collect appends for the next round: nothing is to be started now."""
        ...

    def start(
        self, tickets: Sequence[SyncTicket], after: Mapping[SyncTicket, Sequence[SyncTicket | None]]
    ) -> Sequence[SyncTicket]:
        """Begin to flush without blocking. To be called in the turn of the loop that made the tickets.

        One that comes `after` others is flushed only in one write with them; None stands for one that is not
        here. Returns those for which that cannot be: nothing was done for them.
        """
        ...

    def lagging(self) -> Sequence[DurableLog]:
        """Logs that are due for `start_segment_sync`, so that a file which they share can be used again."""
        ...

    def end_files(self) -> None:
        """Let all logs be lagging that are durable only in a file which they share."""
        ...

    def close(self) -> None:
        """Release the system's resources; nothing is started any more."""
        ...
