"""Rounds of segment logs: what is small goes into one journal, what is large into its own files.

The kernel flushes asynchronously where it can (`KernelSync`); threads do it elsewhere, and where a flush is
more than syncing files. No flush is waited for on the event loop, not even that of a lone request: heartbeats
and metadata are served while a disk hangs.
"""

from __future__ import annotations

import logging
import os
from asyncio import Future, ensure_future
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol, cast

from klamm.storage.durability import LANES, Background, LostLogError, Report, SyncTicket
from klamm.storage.engines.segments.journal import Journal
from klamm.storage.engines.segments.journal_file import JournaledLog, JournalRound
from klamm.storage.engines.segments.kernel_sync import KernelSync
from klamm.storage.engines.segments.sync import SegmentSyncTicket

_logger = logging.getLogger(__name__)


class _Sync(Protocol):
    """What the kernel or a thread has to do."""

    def run(self) -> None: ...
    def files_only(self) -> Sequence[int] | None:
        """The files to fdatasync instead of calling `run`; None when `run` does more than that."""
        ...

    def keep_open(self) -> None: ...


class _Pending:
    """One log's own files, or a round of a journal or its repair, on the way to the disk."""

    __slots__ = ("cause", "error", "journal", "parts_left", "tickets", "work")

    def __init__(
        self,
        work: _Sync,
        tickets: Sequence[SegmentSyncTicket],
        journal: Journal | None = None,
    ) -> None:
        self.work = work
        self.tickets = tickets
        self.journal = journal
        self.cause: Exception | None = None  # why the round failed after which the journal is repaired
        self.parts_left = 0  # files that the kernel has, and one for a thread that has the work
        self.error: Exception | None = None


class SegmentRounds:
    """Flushes the segment logs of one broker; see `SyncRounds`."""

    is_slow = False

    def __init__(
        self,
        broker: Background,
        report: Report,
        open_kernel: Callable[[], KernelSync | None] | None = None,
    ) -> None:
        self._loop = broker.loop
        self._in_background = broker.run
        self._report = report
        self._open_kernel = open_kernel or KernelSync.open if broker.may_ask_kernel else None
        self._kernel: KernelSync | None = None
        self._by_tag: dict[int, _Pending] = {}  # what the kernel has
        self._next_tag = 0
        self._lanes: set[Future[Sequence[Exception | None]]] = set()
        self._for_threads: list[_Pending] = []  # until a lane is free
        self._journals: dict[Journal, None] = {}
        self._in_round: set[Journal] = set()  # a round of theirs is under way
        self.journal_rounds = 0

    @property
    def is_busy(self) -> bool:
        # Where only threads flush, logs keep collecting appends while all threads are busy. So they do while
        # a round of the journal is under way: they share the next one.
        return bool(self._in_round) or (self._kernel is None and len(self._lanes) >= LANES)

    def start(
        self, tickets: Sequence[SyncTicket], after: Mapping[SyncTicket, Sequence[SyncTicket | None]]
    ) -> Sequence[SyncTicket]:
        if self._open_kernel is not None:
            kernel, self._open_kernel = self._open_kernel(), None
            if kernel is not None:
                self._kernel = kernel
                self._loop.add_reader(kernel.fileno(), self._kernel_is_done)
        rounds, others = self._journaled(cast("Sequence[SegmentSyncTicket]", tickets), after)
        left_out = [ticket for ticket in others if ticket in after]
        syncs = rounds + [_Pending(ticket, (ticket,)) for ticket in others if ticket not in after]
        if self._kernel is not None:
            syncs = self._give_to_kernel(self._kernel, syncs)
        for sync in syncs:
            sync.work.keep_open()
            # Counted here and not when a thread is free: the kernel may finish its files before that.
            sync.parts_left += 1
        self._for_threads += syncs
        self._fill_lanes()
        for journaled in rounds:
            assert isinstance(journaled.work, JournalRound)
            journaled.work.write_segments()  # only now: the disk works on the frame meanwhile
        return left_out

    # --- by a journal ----------------------------------------------------------------------------------

    def _journaled(
        self,
        tickets: Sequence[SegmentSyncTicket],
        after: Mapping[SyncTicket, Sequence[SyncTicket | None]],
    ) -> tuple[list[_Pending], list[SegmentSyncTicket]]:
        """A round of each journal, and the tickets that are in none."""
        by_journal: dict[Journal, list[SegmentSyncTicket]] = {}
        others: list[SegmentSyncTicket] = []
        for ticket in tickets:
            if ticket.journal is None:
                others.append(ticket)
            else:
                by_journal.setdefault(ticket.journal, []).append(ticket)
        rounds: list[_Pending] = []
        for journal, members in by_journal.items():
            started = journal.start_round(members, after)
            if started is None:
                others += members
                self._repair(journal)
                continue
            others += [ticket for ticket in members if not ticket.is_journaled]
            rounds.append(_Pending(started, started.tickets, journal))
            self._journals[journal] = None
            self._in_round.add(journal)
            self.journal_rounds += 1
        return rounds, others

    def lagging(self) -> Sequence[JournaledLog]:
        return [log for journal in self._journals for log in journal.lagging()]

    def end_files(self) -> None:
        for journal in self._journals:
            journal.end_file()

    # --- by the kernel ---------------------------------------------------------------------------------

    def _give_to_kernel(self, kernel: KernelSync, syncs: Sequence[_Pending]) -> list[_Pending]:
        """Submit what is only files, each under a tag; the others, with those not accepted."""
        room = kernel.room
        refused: list[_Pending] = []
        handles: list[int] = []
        owners: list[_Pending] = []
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
            return refused
        first_tag = self._next_tag
        self._next_tag = first_tag + len(handles)
        taken = kernel.submit(handles, range(first_tag, self._next_tag))
        for number in range(taken):
            self._by_tag[first_tag + number] = owners[number]
        # If the kernel accepted only some of a log's files, a thread flushes all of them. The kernel's part
        # is awaited too: the system reports a failure only to the first caller.
        for sync in owners[taken:]:
            sync.parts_left -= 1
            if sync not in refused:
                refused.append(sync)
        return refused

    def _kernel_is_done(self) -> None:
        assert self._kernel is not None
        self._are_done(
            (self._by_tag.pop(tag), OSError(number, os.strerror(number)) if number else None)
            for tag, number in self._kernel.arrived()
        )

    # --- by threads ------------------------------------------------------------------------------------

    def _fill_lanes(self) -> None:
        lanes = min(len(self._for_threads), LANES - len(self._lanes))
        if lanes <= 0:
            return
        waiting, self._for_threads = self._for_threads, []
        for lane in range(lanes):
            syncs = waiting[lane::lanes]
            running = ensure_future(self._in_background(partial(_run_all, [sync.work for sync in syncs])))
            self._lanes.add(running)
            running.add_done_callback(partial(self._lane_is_done, syncs))

    def _lane_is_done(self, syncs: Sequence[_Pending], running: Future[Sequence[Exception | None]]) -> None:
        self._lanes.discard(running)
        self._fill_lanes()
        self._are_done(zip(syncs, running.result(), strict=True))

    # --- what becomes of it ----------------------------------------------------------------------------

    def _are_done(self, parts: Iterable[tuple[_Pending, Exception | None]]) -> None:
        outcomes: list[tuple[SyncTicket, Exception | None]] = []
        are_over = False
        for sync, error in parts:
            sync.error = sync.error or error
            sync.parts_left -= 1
            if not sync.parts_left and (sync.journal is None or self._journal_is_done(sync.journal, sync)):
                are_over = True
                outcomes += [(ticket, sync.error) for ticket in sync.tickets]
        if are_over:
            self._report(outcomes)

    def _journal_is_done(self, journal: Journal, sync: _Pending) -> bool:
        """Conclude a round or a repair before its tickets are; False while the journal is being repaired."""
        self._in_round.discard(journal)
        if isinstance(sync.work, JournalRound):
            if sync.error is None:
                journal.finish_round()
                return True
            journal.fail_round()
            return not self._repair(journal, sync)
        journal.finish_repair(is_good=sync.error is None)
        if sync.error is None:
            sync.error = sync.cause
        else:
            _logger.error("%s: making a cut durable failed: %s", journal.directory, sync.error)
            sync.error = LostLogError(str(sync.cause))
        return True

    def _repair(self, journal: Journal, failed: _Pending | None = None) -> bool:
        """Let a thread repair a journal after a failed round or write; False if none does.

        If a round cannot be undone, none of its logs may be used further.
        """
        try:
            work = journal.start_repair()
        except OSError as error:
            _logger.error("%s: truncating after a failed write failed: %s", journal.directory, error)
            if failed is not None:
                failed.error = LostLogError(str(failed.error))
            return False
        if work is None:
            return False
        repair = _Pending(work, (), journal)
        if failed is not None:
            repair.tickets, repair.cause = failed.tickets, failed.error
        repair.parts_left = 1
        self._in_round.add(journal)
        self._for_threads.append(repair)
        self._fill_lanes()
        return True

    def close(self) -> None:
        if self._kernel is not None:
            self._loop.remove_reader(self._kernel.fileno())
            self._kernel.close()
            self._kernel = None


def _run_all(works: Sequence[_Sync]) -> Sequence[Exception | None]:
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
