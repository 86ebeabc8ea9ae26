"""Group commit: everything appended to a log during one fdatasync shares the next one.

What is new in many logs is written to one journal with one fdatasync, where the log's engine has one. Logs
with much to write are flushed by themselves, in parallel, and again as soon as that is complete. The kernel
flushes asynchronously where it can (`KernelSync`); threads do it elsewhere, and where a flush is more than
syncing files. No flush is waited for on the event loop, not even that of a lone request: heartbeats and
metadata are served while a disk hangs. A store that has rounds of its own (`SyncRounds`) gets all that are
dirty, when its last one is complete, or a pause later; those run on the event loop, and on a thread only
after a failure.
"""

from __future__ import annotations

import logging
import os
from asyncio import AbstractEventLoop, Future, TimerHandle, ensure_future
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from klamm.broker.partitions.flush_order import FlushOrder
from klamm.broker.partitions.flushes import Flush, PendingSync, give_to_kernel, run_all
from klamm.broker.partitions.pauses import Pauses
from klamm.broker.partitions.registry import Partition
from klamm.clock import Clock, instants_of
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.storage.log import LogError, PartitionLog, RestOfRound, SharedJournal, SyncRounds, SyncTicket

if TYPE_CHECKING:
    from klamm.broker.services import RunBlocking
    from klamm.storage.engines.segments.kernel_sync import KernelSync

# Files are flushed in parallel: the disk writes its journal once for concurrent flushes. On one
# SSD, flushing 32 files needs 78 ms one after the other and 4 ms in eight lanes.
LANES: Final = 8
# What nothing waits for. The next transaction of a producer, whose first record shares this flush, begins
# within a few milliseconds.
LATER_MS: Final = 20

_log = logging.getLogger(__name__)


class Flusher:
    """Flushes dirty partitions."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        clock: Clock,
        run_blocking: RunBlocking,
        open_kernel: Callable[[], KernelSync | None] = lambda: None,
        *,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """`wake` completes requests as soon as a flush is done; without it they wait for the next turn."""
        self._loop = loop
        self._clock = clock
        self._run_blocking = run_blocking
        self._open_kernel = open_kernel
        self._wake = wake
        self.send: Callable[[], None] = lambda: None  # sends complete responses now, not in the next turn
        self._kernel: KernelSync | None = None
        self._dirty: dict[Partition, None] = {}
        self._dirty_later: dict[Partition, None] = {}
        self._later: TimerHandle | None = None
        self._under_way: dict[Partition, Flush] = {}
        self._by_tag: dict[int, PendingSync] = {}  # what the kernel has
        self._journals: dict[SharedJournal, None] = {}
        self._rounds_in_journals: set[SharedJournal] = set()  # under way
        self._journaled: WeakKeyDictionary[PartitionLog, Partition] = WeakKeyDictionary()
        self._order = FlushOrder()
        self._next_tag = 0
        self._lanes: set[Future[Sequence[Exception | None]]] = set()
        self._busy: set[SyncRounds] = set()  # a round of theirs is under way
        self._for_threads: list[PendingSync] = []  # until a lane is free
        self._starts_soon = False
        self._appends = 0  # marked since flushes were begun
        self._pauses = Pauses(loop, instants_of(clock), self._start_soon)  # between rounds of a store
        self._has_failed = False
        self._idle: Future[None] | None = None
        self._settling: dict[Partition, Future[None]] = {}  # until the flush that is under way is complete
        self._progress: Future[None] | None = None  # until flushes have begun, or one is complete
        self.rounds = 0
        self.flushes = 0  # of single logs
        self.journal_rounds = 0
        self.flush_ms = 0  # total duration

    def mark(self, partition: Partition) -> None:
        """Flush a partition, together with the others that are dirty."""
        self._dirty[partition] = None
        self._appends += 1
        if self._appends == self._pauses.all_back_at:
            self._pauses.all_are_back()
        if not self._starts_soon and partition not in self._under_way:
            self._start_soon()

    def can_put_after(self, partition: Partition) -> bool:
        """Whether appends to a partition can be put after others, or others after them."""
        return self._order.takes(partition)

    def put_after(self, partition: Partition, earlier: Partition) -> None:
        """What is appended to a partition from now on is not durable before everything in another one is.

        It is in the same round, or in a later one. Only if `can_put_after` says so for both. Raises LogError.
        """
        self._order.add(partition, earlier)
        self._dirty[earlier] = self._dirty[partition] = None
        if not self._starts_soon:
            self._start_soon()

    def mark_later(self, partition: Partition) -> None:
        """Flush a partition soon, perhaps together with later appends: nothing waits for it."""
        self._dirty_later[partition] = None
        if self._later is None:
            self._later = self._loop.call_later(LATER_MS / 1000, self._mark_later_ones)

    def _mark_later_ones(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        partitions, self._dirty_later = self._dirty_later, {}
        for partition in partitions:
            self.mark(partition)

    def _start_soon(self) -> None:
        """Start flushing in the next turn of the loop, to include the other appends of this turn.

        While other flushes run, it is delayed by another turn, to include requests that have arrived by
        then: at full load a log then has 2.5 commits to flush, not 2. Not during a round of a store, nor in
        the pause after it.
        """
        if not self._starts_soon and not self._busy and not self._pauses.is_on:
            self._starts_soon = True
            if self._under_way:
                self._loop.call_soon(self._loop.call_soon, self._start)
            else:
                self._loop.call_soon(self._start)

    async def drain(self) -> None:
        """Wait until nothing is dirty."""
        self._mark_later_ones()
        while self._dirty or self._under_way or self._starts_soon:
            if self._idle is None:
                self._idle = self._loop.create_future()
            await self._idle

    def sync_segments(self) -> None:
        """Begin to sync everything that is durable only in a journal."""
        if self._journals:
            for journal in self._journals:
                journal.end_file()
            self._start_soon()

    async def settled(self, partition: Partition) -> None:
        """Wait until no flush of a partition is under way, and none of another must come before its next."""
        while (earlier := self._order.waits_for(partition)) and not self._order.is_lost(partition):
            self._start_soon()
            if self._progress is None:
                self._progress = self._loop.create_future()
            await self._progress
            for each in earlier:
                await self.settled(each)
        while partition in self._under_way:
            waiter = self._settling.setdefault(partition, self._loop.create_future())
            await waiter

    def close(self) -> None:
        """Release the kernel's resources; nothing is flushed any more."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._pauses.stop()
        if self._kernel is not None:
            self._loop.remove_reader(self._kernel.fileno())
            self._kernel.close()
            self._kernel = None

    def _start(self) -> None:
        self._starts_soon = False
        # Where only threads flush, logs keep collecting appends while all threads are busy. So they do while
        # a round of the journal is under way: they share the next one.
        is_free = self._kernel is not None or len(self._lanes) < LANES
        journaled: Sequence[PendingSync] = ()
        if is_free and not self._rounds_in_journals and (flushes := self._begin_all()):
            if not self.rounds and (kernel := self._open_kernel()) is not None:
                self._kernel = kernel
                self._loop.add_reader(kernel.fileno(), self._kernel_is_done)
            self.rounds += 1
            syncs = self._start_rounds(self._shared(flushes))
            journaled = [sync for sync in syncs if sync.journal is not None]
            if self._kernel is not None:
                syncs, self._next_tag = give_to_kernel(self._kernel, syncs, self._by_tag, self._next_tag)
            for sync in syncs:
                sync.work.keep_open()
                # Counted here and not when a thread is free: the kernel may finish its files before that.
                sync.parts_left += 1
            self._for_threads += syncs
        lanes = min(len(self._for_threads), LANES - len(self._lanes))
        if lanes > 0:
            waiting, self._for_threads = self._for_threads, []
            for syncs in (waiting[lane::lanes] for lane in range(lanes)):
                self._start_on_thread(syncs, partial(run_all, [sync.work for sync in syncs]), lambda: None)
        for sync in journaled:
            assert sync.journal is not None
            sync.journal.write_segments(sync.work)  # only now: the disk works meanwhile
        if self._idle is not None and not self._dirty and not self._under_way:
            self._idle.set_result(None)
            self._idle = None
        if is_free and not self._rounds_in_journals:
            self._progressed()

    def _progressed(self) -> None:
        progress, self._progress = self._progress, None
        if progress is not None and not progress.done():
            progress.set_result(None)

    def _begin_all(self) -> list[Flush]:
        """Begin the flushes that can start now; a log that is being flushed has to wait for the next one."""
        self._pauses.count_anew(self._appends)
        self._appends = 0
        waiting, self._dirty = self._dirty, {}
        under_way = self._under_way
        now_ms = self._clock.now_ms()
        # After a failure not at once again: that would be a loop without a pause.
        is_pausing, self._has_failed = self._has_failed and not waiting, False
        flushes: list[Flush] = self._begin_lagging(now_ms) if self._journals and not is_pausing else []
        for partition in waiting:
            if partition in under_way:
                self._dirty[partition] = None
                continue
            if partition.error_code is not NO_ERROR:
                if not partition.is_sealed:
                    self._order.forget(partition)
                continue
            try:
                log = partition.log
                if log.rounds in self._busy:
                    self._dirty[partition] = None
                    continue
                if self._order.waits_for(partition) and self._order.is_lost(partition):
                    self._cut(partition, log)
                    continue
                try:
                    ticket = log.start_sync()
                except LogError as error:
                    self._refuse(partition, log, error)
                    continue
            except Exception:
                self._lose(partition)
                continue
            if ticket is None:
                self._order.settle(partition)
            else:
                flush = under_way[partition] = Flush(partition, log, ticket, now_ms)
                flushes.append(flush)
        return flushes

    def _refuse(self, partition: Partition, log: PartitionLog, error: LogError) -> None:
        """What an earlier flush left cannot be written again, so that no flush can begin. Raises LogError."""
        if error.error_code is not ErrorCode.kafka_storage_error:
            raise error
        # The disk may be full, and have room again later: what is durable is served until then.
        partition.note(error)
        partition.flush_failed()
        log.truncate(log.high_watermark)
        self._order.settle(partition)

    # --- by a journal ----------------------------------------------------------------------------------

    def _begin_lagging(self, now_ms: int) -> list[Flush]:
        """Begin to sync segments of logs that the journal holds, so that its files can be used again."""
        flushes = []
        for journal in self._journals:
            for log in journal.lagging():
                partition = self._journaled.get(log)
                if partition is None or partition in self._under_way or partition.error_code is not NO_ERROR:
                    continue
                try:
                    ticket = log.start_segment_sync()
                except Exception:
                    self._lose(partition)
                    continue
                if ticket is not None:
                    flush = self._under_way[partition] = Flush(partition, log, ticket, now_ms)
                    flushes.append(flush)
        return flushes

    def _shared(self, flushes: Sequence[Flush]) -> list[PendingSync]:
        """What has to be synced: a round of each journal, and the files of the logs that are not in one."""
        by_journal: dict[SharedJournal, list[Flush]] = {}
        others: list[Flush] = []
        for flush in flushes:
            journal = flush.ticket.journal
            if journal is None:
                others.append(flush)
            else:
                by_journal.setdefault(journal, []).append(flush)
        syncs: list[PendingSync] = []
        for journal, members in by_journal.items():
            started = journal.start_round([flush.ticket for flush in members], self._after(members))
            if started is None:
                others += members
                continue
            journaled = []
            for flush in members:
                if flush.ticket.is_journaled:
                    journaled.append(flush)
                    if not flush.partition.is_journaled:
                        flush.partition.is_journaled = True
                        self._journaled[flush.log] = flush.partition
                else:
                    others.append(flush)
            syncs.append(PendingSync(started, journaled, journal))
            self._journals[journal] = None
            self._rounds_in_journals.add(journal)
            self.journal_rounds += 1
        for flush in others:
            if self._is_held_back(flush):
                self._postpone(flush)
            else:
                syncs.append(PendingSync(flush.ticket, (flush,)))
        return syncs

    # --- in order --------------------------------------------------------------------------------------

    def _after(self, flushes: Sequence[Flush]) -> dict[SyncTicket, Sequence[SyncTicket | None]]:
        """The tickets that must be in the same round as others, with these; None for one that is not here."""
        tickets = {flush.partition: flush.ticket for flush in flushes}
        return {
            flush.ticket: [tickets.get(each) for each in self._order.earlier_than(flush.partition)]
            for flush in flushes
            if flush.partition in self._order
        }

    def _is_held_back(self, flush: Flush) -> bool:
        """Whether a flush of a log's own files would come too early."""
        return flush.partition in self._order and flush.ticket.end_offset > flush.log.high_watermark

    def _postpone(self, flush: Flush) -> None:
        """Flush a partition when what it waits for is durable; if that is not even under way, it is lost."""
        partition = flush.partition
        del self._under_way[partition]
        if all(each in self._under_way for each in self._order.waits_for(partition)):
            self._dirty[partition] = None
            self._order.postpone(partition)
        else:
            try:
                self._cut(partition, flush.log)
            except Exception:
                self._lose(partition)
        self._settle(partition)

    def _cut(self, partition: Partition, log: PartitionLog) -> None:
        """Truncate a partition whose unflushed appends come after something that is lost. Raises LogError."""
        _log.warning("%s: records that depend on a failed flush are removed", partition.name)
        partition.flush_failed()
        log.truncate(log.high_watermark)
        self._order.settle(partition)

    def _settle(self, partition: Partition) -> None:
        if self._settling and (waiter := self._settling.pop(partition, None)) is not None:
            waiter.set_result(None)

    # --- by the kernel ---------------------------------------------------------------------------------

    def _kernel_is_done(self) -> None:
        assert self._kernel is not None
        now_ms = self._clock.now_ms()
        for tag, error_number in self._kernel.arrived():
            error = OSError(error_number, os.strerror(error_number)) if error_number else None
            self._part_is_done(self._by_tag.pop(tag), error, now_ms)
        self._wake()
        self.send()
        self._start_soon()

    # --- by threads ------------------------------------------------------------------------------------

    def _start_rounds(self, syncs: list[PendingSync]) -> list[PendingSync]:
        """Start the rounds of stores that flush many logs at once; return what is flushed otherwise."""
        others: list[PendingSync] = []
        together: dict[SyncRounds, list[PendingSync]] = {}
        for sync in syncs:
            rounds = sync.flushes[0].log.rounds
            if rounds is None:
                others.append(sync)
            else:
                sync.parts_left = 1
                together.setdefault(rounds, []).append(sync)
        for rounds, members in together.items():
            self._busy.add(rounds)
            self._pauses.round_begins()
            tickets = [sync.flushes[0].ticket for sync in members]
            rounds.start(tickets, self._loop, partial(self._started_round_ends, rounds, members))
        return others

    def _started_round_ends(
        self, rounds: SyncRounds, members: Sequence[PendingSync], rest: RestOfRound | None
    ) -> None:
        if rest is None:
            self._busy.discard(rounds)
            self._pauses.round_ends(self._appends)
            self._are_done(members, [None] * len(members))
            self._wake()
        else:
            self._start_on_thread(members, rest, lambda: self._busy.discard(rounds))

    def _start_on_thread(
        self, syncs: Sequence[PendingSync], work: RestOfRound, when_done: Callable[[], None]
    ) -> None:
        outcome = ensure_future(self._run_blocking(work))
        self._lanes.add(outcome)

        def finish(_: Future[Sequence[Exception | None]]) -> None:
            self._lanes.discard(outcome)
            when_done()
            self._are_done(syncs, outcome.result())

        outcome.add_done_callback(finish)

    def _are_done(self, syncs: Sequence[PendingSync], outcomes: Sequence[Exception | None]) -> None:
        now_ms = self._clock.now_ms()
        for sync, error in zip(syncs, outcomes, strict=True):
            self._part_is_done(sync, error, now_ms)
        self._start_soon()

    # --- what becomes of it ----------------------------------------------------------------------------

    def _part_is_done(self, sync: PendingSync, error: Exception | None, now_ms: int) -> None:
        sync.error = sync.error or error
        sync.parts_left -= 1
        if sync.parts_left:
            return
        self._has_failed |= sync.error is not None
        can_go_on = sync.journal is None or self._round_is_done(sync.journal, sync.error)
        for flush in sync.flushes:
            partition, log = flush.partition, flush.log
            del self._under_way[partition]
            self.flushes += 1
            self.flush_ms += now_ms - flush.started_at_ms
            try:
                if sync.error is None:
                    log.finish_sync(flush.ticket)
                elif can_go_on:
                    self._fail(partition, log, flush.ticket, sync.error)
                else:
                    raise sync.error
            except Exception:
                self._lose(partition)
            self._settle(partition)
        for flush in sync.flushes:
            self._order.waits_for(flush.partition)  # if for nothing more, it is not held back any more
        self._progressed()

    def _round_is_done(self, journal: SharedJournal, error: Exception | None) -> bool:
        """Whether the logs of a round can be used further."""
        self._rounds_in_journals.discard(journal)
        if error is None:
            journal.finish_round()
            return True
        try:
            journal.fail_round()
        except OSError as worse:
            _log.error("truncating the journal after a failed flush failed: %s", worse)
            return False
        return True

    def _lose(self, partition: Partition) -> None:
        """After an unexpected failure the state of this log is unknown: it goes offline, the others go on."""
        _log.exception("flushing %s failed, the partition is offline", partition.name)
        partition.fail(ErrorCode.kafka_storage_error)
        self._order.forget(partition)

    def _fail(self, partition: Partition, log: PartitionLog, ticket: SyncTicket, error: Exception) -> None:
        if isinstance(error, LogError) and error.error_code is ErrorCode.not_leader_or_follower:
            # Another epoch leads the log now. What the ticket made durable before is acknowledged.
            _log.warning("%s: %s", partition.name, error)
            log.fail_sync(ticket)
            partition.release()
            partition.fail(error.error_code)
            return
        why = f"flush failed, records that are not on disk are removed: {error}"
        partition.note(LogError(ErrorCode.kafka_storage_error, why))  # logs repeated failures once
        partition.flush_failed()
        log.fail_sync(ticket)
        self._order.settle(partition)
