"""What the flusher has under way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from klamm.broker.partitions.registry import Partition
from klamm.storage.log import PartitionLog, SharedJournal, Sync, SyncTicket

if TYPE_CHECKING:
    from klamm.storage.engines.segments.kernel_sync import KernelSync


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


def give_to_kernel(
    kernel: KernelSync, syncs: Sequence[PendingSync], by_tag: dict[int, PendingSync], first_tag: int
) -> tuple[list[PendingSync], int]:
    """Submit what is only files, each under a tag; the others, with those not accepted, and the next tag."""
    room = kernel.room
    refused: list[PendingSync] = []
    handles: list[int] = []
    owners: list[PendingSync] = []
    for sync in syncs:
        files = sync.work.files_only()
        if not files or len(handles) + len(files) > room:
            refused.append(sync)
            continue
        sync.parts_left = len(files)
        for handle in files:
            handles.append(handle)
            owners.append(sync)
    if not handles:
        return refused, first_tag
    next_tag = first_tag + len(handles)
    taken = kernel.submit(handles, range(first_tag, next_tag))
    for number in range(taken):
        by_tag[first_tag + number] = owners[number]
    # If the kernel accepted only some of a log's files, a thread flushes all of them. The kernel's part
    # is awaited too: the system reports a failure only to the first caller.
    for sync in owners[taken:]:
        sync.parts_left -= 1
        if sync not in refused:
            refused.append(sync)
    return refused, next_tag


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
