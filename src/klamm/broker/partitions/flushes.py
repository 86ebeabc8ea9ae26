"""What the flusher has under way."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.broker.partitions.registry import Partition
from klamm.storage.log import PartitionLog, SharedJournal, Sync, SyncTicket


class Flush:
    """A flush of one log that is under way."""

    __slots__ = ("log", "partition", "started_at_ms", "ticket")

    def __init__(
        self, partition: Partition, log: PartitionLog, ticket: SyncTicket, started_at_ms: int
    ) -> None:
        self.partition = partition
        self.log = log
        self.ticket = ticket
        self.started_at_ms = started_at_ms


class PendingSync:
    """What the kernel or a thread has to do: one log's own files, or a round of a journal."""

    __slots__ = ("error", "flushes", "journal", "parts_left", "work")

    def __init__(self, work: Sync, flushes: Sequence[Flush], journal: SharedJournal | None = None) -> None:
        self.work = work
        self.flushes = flushes
        self.journal = journal
        self.parts_left = 0  # files that the kernel has, and one for a thread that has the work
        self.error: Exception | None = None


def run_all(works: Sequence[Sync]) -> Sequence[Exception | None]:
    """Flush each of them, also after a failure; blocks."""
    outcomes: list[Exception | None] = []
    for work in works:
        try:
            work.run()
        except Exception as error:
            outcomes.append(error)
        else:
            outcomes.append(None)
    return outcomes
