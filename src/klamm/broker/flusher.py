"""Group commit: all that was appended since the last round shares the next round of fdatasync.

While one round runs on its worker thread, the next one gathers.
"""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop, Future, ensure_future
from collections.abc import Sequence
from typing import TYPE_CHECKING

from klamm.clock import Clock
from klamm.protocol.errors import ErrorCode
from klamm.storage.log import PartitionLog, SyncTicket

if TYPE_CHECKING:
    from klamm.broker.partitions import Partition
    from klamm.broker.services import RunBlocking

_log = logging.getLogger(__name__)


def _run(tickets: Sequence[SyncTicket]) -> list[Exception | None]:
    """Flush all of them, whatever becomes of each; blocks."""
    outcomes: list[Exception | None] = []
    for ticket in tickets:
        try:
            ticket.run()
        except Exception as error:
            outcomes.append(error)
        else:
            outcomes.append(None)
    return outcomes


class Flusher:
    """Takes dirty partitions to the disk, one round after the other."""

    def __init__(self, loop: AbstractEventLoop, clock: Clock, run_blocking: RunBlocking) -> None:
        self._loop = loop
        self._clock = clock
        self._run_blocking = run_blocking
        self._dirty: dict[Partition, None] = {}
        self._round: list[tuple[Partition, PartitionLog, SyncTicket]] = []
        self._outcome: Future[list[Exception | None]] | None = None
        self._is_busy = False  # a round runs, or will start before the loop turns again
        self._idle: Future[None] | None = None
        self.rounds = 0

    def appended(self, partition: Partition) -> None:
        """Something was appended: flush it, if its topic's policy says so."""
        if partition.log.sync_is_due(self._clock.now_ms()):
            self.mark(partition)

    def mark(self, partition: Partition) -> None:
        """Flush a partition with everything else that waits."""
        self._dirty[partition] = None
        if not self._is_busy:
            # Not at once: what else this turn of the loop brings comes along.
            self._is_busy = True
            self._loop.call_soon(self._start_round)

    async def drain(self) -> None:
        """Until nothing waits for the disk any more."""
        while self._is_busy:
            if self._idle is None:
                self._idle = self._loop.create_future()
            await self._idle

    def _start_round(self) -> None:
        dirty, self._dirty = self._dirty, {}
        self._round = [
            (partition, partition.log, ticket)
            for partition in dirty
            if partition.error_code is ErrorCode.none and (ticket := partition.log.start_sync()) is not None
        ]
        if not self._round:
            self._end_round()
            return
        self.rounds += 1
        tickets = [ticket for _, _, ticket in self._round]
        self._outcome = ensure_future(self._run_blocking(_run, tickets))
        self._outcome.add_done_callback(self._finish_round)

    def _finish_round(self, outcome: Future[list[Exception | None]]) -> None:
        finished, self._round = self._round, []
        for (partition, log, ticket), error in zip(finished, outcome.result(), strict=True):
            try:
                if error is None:
                    log.finish_sync(ticket)
                else:
                    self._fail(partition, log, ticket, error)
            except Exception:
                # Nobody knows what this log holds any more; the others go on.
                _log.exception("%s is offline", partition.name)
                partition.fail(ErrorCode.kafka_storage_error)
        self._end_round()

    def _fail(self, partition: Partition, log: PartitionLog, ticket: SyncTicket, error: Exception) -> None:
        _log.error("%s cannot be flushed, cut back to what is on disk: %s", partition.name, error)
        partition.flush_failed()
        log.fail_sync(ticket)

    def _end_round(self) -> None:
        if self._dirty:
            self._start_round()
            return
        self._is_busy = False
        if self._idle is not None:
            self._idle.set_result(None)
            self._idle = None
