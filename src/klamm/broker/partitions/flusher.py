"""Group commit: everything appended to a log during one fdatasync shares the next one.

A partition is marked when something was appended. In the next turn of the event loop all that is dirty goes
to the rounds of its store (`SyncRounds`), unless they are busy: then it is collected until they are done, or,
where rounds are slow, for a pause longer. What comes after something in another partition is in one write
with it, or waits for it (`FlushOrder`).
"""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop, Future, TimerHandle
from collections.abc import Callable, Sequence
from typing import Final
from weakref import WeakKeyDictionary, ref

from klamm.broker.partitions.flush_order import FlushOrder
from klamm.broker.partitions.pauses import Pauses
from klamm.broker.partitions.registry import Partition
from klamm.clock import Clock, instants_of
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.storage.durability import DurableLog, LostLogError, Outcomes, Report, SyncRounds, SyncTicket
from klamm.storage.log import LogError

# What nothing waits for. The next transaction of a producer, whose first record shares this flush, begins
# within a few milliseconds.
LATER_MS: Final = 20

_log = logging.getLogger(__name__)


class Flush:
    """A flush of one log that is under way."""

    __slots__ = ("log", "partition", "started_at_ms", "ticket")

    def __init__(self, partition: Partition, log: DurableLog, ticket: SyncTicket, started_at_ms: int) -> None:
        self.partition = partition
        self.log = log
        self.ticket = ticket
        self.started_at_ms = started_at_ms


class Flusher:
    """Flushes dirty partitions."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        clock: Clock,
        make_rounds: Callable[[Report], SyncRounds],
        *,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """`wake` completes requests as soon as a flush is done; without it they wait for the next turn."""
        self._loop = loop
        self._clock = clock
        self._wake = wake
        self.send: Callable[[], None] = lambda: None  # sends complete responses now, not in the next turn
        self._make_rounds = make_rounds
        self._store: SyncRounds | None = None  # its rounds, once there is something to flush
        self._dirty: dict[Partition, None] = {}
        self._dirty_later: dict[Partition, None] = {}
        self._later: TimerHandle | None = None
        self._under_way: dict[Partition, Flush] = {}
        self._by_ticket: dict[SyncTicket, Flush] = {}  # the same
        # Both weak: a partition has its log, and neither must be kept when it is closed.
        self._flushed: WeakKeyDictionary[DurableLog, ref[Partition]] = WeakKeyDictionary()
        self._order = FlushOrder()
        self._starts_soon = False
        self._appends = 0  # marked since flushes were begun
        self._pauses = Pauses(loop, instants_of(clock), self._start_soon)  # between slow rounds
        self._has_failed = False
        self._idle: Future[None] | None = None
        self._settling: dict[Partition, Future[None]] = {}  # until the flush that is under way is complete
        self._progress: Future[None] | None = None  # until flushes have begun, or one is complete
        self.rounds = 0
        self.flushes = 0  # of single logs
        self.flush_ms = 0  # total duration

    @property
    def journal_rounds(self) -> int:
        """How many rounds were one write for many logs."""
        return 0 if self._store is None else self._store.journal_rounds

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
        then: at full load a log then has 2.5 commits to flush, not 2. Not during a slow round, nor in the
        pause after it.
        """
        if not self._starts_soon and not self._pauses.is_on and not self._is_in_slow_round:
            self._starts_soon = True
            if self._under_way:
                self._loop.call_soon(self._loop.call_soon, self._start)
            else:
                self._loop.call_soon(self._start)

    @property
    def _is_in_slow_round(self) -> bool:
        store = self._store
        return store is not None and store.is_slow and store.is_busy

    async def drain(self) -> None:
        """Wait until nothing is dirty."""
        self._mark_later_ones()
        while self._dirty or self._under_way or self._starts_soon:
            if self._idle is None:
                self._idle = self._loop.create_future()
            await self._idle

    def sync_segments(self) -> None:
        """Begin to sync everything that is durable only in a journal."""
        if self._store is not None:
            self._store.end_files()
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
        """Release the system's resources; nothing is flushed any more."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._pauses.stop()
        if self._store is not None:
            self._store.close()

    # --- beginning -------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._starts_soon = False
        store = self._store
        if store is None:
            store = self._store = self._make_rounds(self._ended)
        is_free = not store.is_busy
        if is_free and (flushes := self._begin_all(store)):
            self.rounds += 1
            if store.is_slow:
                self._pauses.round_begins()
            for ticket in store.start([flush.ticket for flush in flushes], self._after(flushes)):
                self._postpone(self._by_ticket.pop(ticket))
        if self._idle is not None and not self._dirty and not self._under_way:
            self._idle.set_result(None)
            self._idle = None
        if is_free and not store.is_busy:
            self._progressed()

    def _progressed(self) -> None:
        progress, self._progress = self._progress, None
        if progress is not None and not progress.done():
            progress.set_result(None)

    def _begin_all(self, store: SyncRounds) -> list[Flush]:
        """Begin the flushes that can start now; a log that is being flushed has to wait for the next one."""
        self._pauses.count_anew(self._appends)
        self._appends = 0
        waiting, self._dirty = self._dirty, {}
        under_way, by_ticket = self._under_way, self._by_ticket
        now_ms = self._clock.now_ms()
        # After a failure not at once again: that would be a loop without a pause.
        is_pausing, self._has_failed = self._has_failed and not waiting, False
        flushes: list[Flush] = [] if is_pausing else self._begin_lagging(store, now_ms)
        for partition in waiting:
            if partition in under_way:
                self._dirty[partition] = None
                continue
            if partition.error_code is not NO_ERROR:
                if not partition.is_sealed:
                    self._order.forget(partition)
                continue
            try:
                log = partition.durable
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
                continue
            if not partition.is_flushed:
                partition.is_flushed = True
                self._flushed[log] = ref(partition)
            flush = under_way[partition] = by_ticket[ticket] = Flush(partition, log, ticket, now_ms)
            flushes.append(flush)
        return flushes

    def _begin_lagging(self, store: SyncRounds, now_ms: int) -> list[Flush]:
        """Begin to sync segments of logs that the journal holds, so that its files can be used again."""
        flushes = []
        for log in store.lagging():
            known = self._flushed.get(log)
            partition = None if known is None else known()
            if partition is None or partition in self._under_way or partition.error_code is not NO_ERROR:
                continue
            try:
                ticket = log.start_segment_sync()
            except Exception:
                self._lose(partition)
                continue
            if ticket is not None:
                flush = self._under_way[partition] = Flush(partition, log, ticket, now_ms)
                self._by_ticket[ticket] = flush
                flushes.append(flush)
        return flushes

    def _refuse(self, partition: Partition, log: DurableLog, error: LogError) -> None:
        """What an earlier flush left cannot be written again, so that no flush can begin. Raises LogError."""
        if error.error_code is not ErrorCode.kafka_storage_error:
            raise error
        # The disk may be full, and have room again later: what is durable is served until then.
        partition.note(error)
        partition.flush_failed()
        log.truncate(log.high_watermark)
        self._order.settle(partition)

    # --- in order --------------------------------------------------------------------------------------

    def _after(self, flushes: Sequence[Flush]) -> dict[SyncTicket, Sequence[SyncTicket | None]]:
        """The tickets that must be in the same write as others, with these; None for one that is not here."""
        under_way = self._under_way
        return {
            flush.ticket: [
                under_way[each].ticket if each in under_way else None
                for each in self._order.earlier_than(flush.partition)
            ]
            for flush in flushes
            if flush.partition in self._order and flush.ticket.end_offset > flush.log.high_watermark
        }

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

    def _cut(self, partition: Partition, log: DurableLog) -> None:
        """Truncate a partition whose unflushed appends come after something that is lost. Raises LogError."""
        _log.warning("%s: records that depend on a failed flush are removed", partition.name)
        partition.flush_failed()
        log.truncate(log.high_watermark)
        self._order.settle(partition)

    def _settle(self, partition: Partition) -> None:
        if self._settling and (waiter := self._settling.pop(partition, None)) is not None:
            waiter.set_result(None)

    # --- what becomes of it ----------------------------------------------------------------------------

    def _ended(self, outcomes: Outcomes) -> None:
        if self._store is not None and self._store.is_slow and all(error is None for _, error in outcomes):
            self._pauses.round_ends(self._appends)
        now_ms = self._clock.now_ms()
        partitions = []
        for ticket, error in outcomes:
            flush = self._by_ticket.pop(ticket)
            partition, log = flush.partition, flush.log
            partitions.append(partition)
            del self._under_way[partition]
            self.flushes += 1
            self.flush_ms += now_ms - flush.started_at_ms
            self._has_failed |= error is not None
            try:
                if error is None:
                    log.finish_sync(ticket)
                elif isinstance(error, LostLogError):
                    raise error
                else:
                    self._fail(partition, log, ticket, error)
            except Exception:
                self._lose(partition)
            self._settle(partition)
        for partition in partitions:
            self._order.waits_for(partition)  # if for nothing more, it is not held back any more
        self._progressed()
        self._wake()
        self.send()
        self._start_soon()

    def _lose(self, partition: Partition) -> None:
        """After an unexpected failure the state of this log is unknown: it goes offline, the others go on."""
        _log.exception("flushing %s failed, the partition is offline", partition.name)
        partition.fail(ErrorCode.kafka_storage_error)
        self._order.forget(partition)

    def _fail(self, partition: Partition, log: DurableLog, ticket: SyncTicket, error: Exception) -> None:
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
