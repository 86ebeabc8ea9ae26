"""The rounds of a database's store, as a broker sees them."""

from __future__ import annotations

from asyncio import Future, ensure_future
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from klamm.storage.durability import Background, DurableLog, Report, SyncTicket

if TYPE_CHECKING:
    from klamm.storage.engines.postgresql.rounds import PostgresRounds, RestOfRound


class DatabaseRounds:
    """One round after the other, with all that is dirty: on the event loop, after a failure on a thread."""

    is_slow = True
    journal_rounds = 0

    def __init__(self, rounds: PostgresRounds, broker: Background, report: Report) -> None:
        self._rounds = rounds
        self._broker = broker
        self._report = report
        self._rest: Future[Sequence[Exception | None]] | None = None
        self.is_busy = False

    def start(
        self, tickets: Sequence[SyncTicket], after: Mapping[SyncTicket, Sequence[SyncTicket | None]]
    ) -> Sequence[SyncTicket]:
        assert not after, "no log of this store holds anything back"
        self.is_busy = True
        self._rounds.start(tickets, self._broker.loop, partial(self._go_on, tickets))
        return ()

    def _go_on(self, tickets: Sequence[SyncTicket], rest: RestOfRound | None) -> None:
        if rest is None:
            self._end(tickets, [None] * len(tickets))
        else:
            running = self._rest = ensure_future(self._broker.run(rest))
            running.add_done_callback(lambda _: self._end(tickets, running.result()))

    def _end(self, tickets: Sequence[SyncTicket], outcomes: Sequence[Exception | None]) -> None:
        self.is_busy = False
        self._report(list(zip(tickets, outcomes, strict=True)))

    def lagging(self) -> Sequence[DurableLog]:
        return ()

    def end_files(self) -> None:
        """All that is durable is in its own rows."""

    def close(self) -> None:
        """The connection is the store's."""
