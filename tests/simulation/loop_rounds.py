"""Rounds on the event loop, for brokers whose event loop has no sockets.

The statements are real, and so is the code that sends them and reads their results. When a statement arrives
at the server, when its result is readable, and what breaks in between is decided here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from select import POLLIN, poll
from typing import TYPE_CHECKING, Any, cast

import psycopg

from klamm.storage.durability import SyncTicket
from klamm.storage.engines.postgresql.appending import Ends, append_chunks
from klamm.storage.engines.postgresql.chunks import ChunkRow
from klamm.storage.engines.postgresql.cluster import PostgresCluster
from klamm.storage.engines.postgresql.connection import ConnectionLostError, Session, StoreUnavailableError
from klamm.storage.engines.postgresql.rounds import PostgresRounds, RestOfRound
from simulation.database import SimulatedConnection

if TYPE_CHECKING:
    from threading import Event

    from psycopg.pq.abc import PGresult

Later = Callable[..., None]  # calls a function of a broker after some time, unless the broker is dead by then


class Link:
    """What `LoopAppend` has of a connection: libpq's functions for one statement at a time."""

    def __init__(self, connection: SimulatedConnection, later: Later) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._later = later
        self._is_lost = False
        self.reader: Callable[[], None] | None = None  # called when there is something to read

    @property
    def pgconn(self) -> Link:
        return self

    @property
    def socket(self) -> int:
        return self._pgconn.socket

    def send_query_prepared(self, *statement: Any) -> None:
        kind = self._connection.breaks()
        if kind == "before":
            self._connection.cut()
            raise psycopg.OperationalError("the connection broke before a statement")
        self._later(self._arrive, kind, statement)

    def flush(self) -> int:
        return 0

    def _arrive(self, kind: str, statement: Sequence[Any]) -> None:
        """The statement is at the server, unless the connection broke on the way."""
        if not self._connection.closed:
            if kind == "late":
                self._is_lost = True
                self._connection.arrive_later(partial(self._pgconn.exec_prepared, *statement))
            else:
                self._pgconn.send_query_prepared(*statement)
                while self._pgconn.flush():
                    pass
                self._wait()  # the server has run it before anything else happens in this world
                if kind == "after":
                    self._connection.cut()
        self._later(self._notify)

    def _notify(self) -> None:
        while self.reader is not None:
            self.reader()
            if self.reader is not None:
                self._wait()  # for the rest

    def _wait(self) -> None:
        poller = poll()
        poller.register(self._pgconn.socket, POLLIN)
        assert poller.poll(60_000), "the server does not answer"

    def consume_input(self) -> None:
        if self._is_lost:
            raise psycopg.OperationalError("the connection broke with a statement under way")
        self._pgconn.consume_input()

    def is_busy(self) -> int:
        return self._pgconn.is_busy()

    def get_result(self) -> PGresult | None:
        return self._pgconn.get_result()


class SessionTakenError(Exception):
    """The event loop has the session. A real thread would wait until it is given back."""


class LinkedSession:
    """A session whose connection is a `Link` to who takes it on the event loop."""

    def __init__(self, session: Session, later: Later) -> None:
        self._session = session
        self._later = later
        self.link: Link | None = None  # of who has taken it
        self.is_taken = False

    def use(self) -> AbstractContextManager[psycopg.Connection[Any]]:
        return self._session.use()

    def take(self) -> Link | None:
        connection = self._session.take()
        assert connection is None or isinstance(connection, SimulatedConnection)
        self.is_taken = connection is not None
        self.link = None if connection is None else Link(connection, self._later)
        return self.link

    def give_back(self, error: Exception | None = None) -> Exception | None:
        self.is_taken = False
        return self._session.give_back(error)

    # What `LoopAppend` wants of its event loop

    def add_reader(self, _socket: int, callback: Callable[[], None]) -> None:
        assert self.link is not None
        self.link.reader = callback

    def remove_reader(self, _socket: int) -> None:
        assert self.link is not None
        self.link.reader = None


class SimulatedRounds(PostgresRounds):
    """Rounds of one broker, on its event loop as long as nothing goes wrong."""

    def __init__(self, session: Session, cluster: PostgresCluster, is_closing: Event, later: Later) -> None:
        self._linked = LinkedSession(session, later)
        super().__init__(cast(Session, self._linked), cluster, is_closing)

    def start(
        self,
        tickets: Sequence[SyncTicket],
        loop: asyncio.AbstractEventLoop,
        when_done: Callable[[RestOfRound | None], None],
    ) -> None:
        super().start(tickets, cast(asyncio.AbstractEventLoop, self._linked), when_done)

    def run(self, tickets: Sequence[SyncTicket]) -> Sequence[Exception | None]:
        if self._linked.is_taken:
            raise SessionTakenError
        return super().run(tickets)

    def _attempt(self, chunks: Sequence[ChunkRow]) -> Ends | Exception:
        while True:
            try:
                with self._session.use() as connection:
                    assert isinstance(connection, SimulatedConnection)
                    return connection.risk(partial(append_chunks, connection, chunks))
            except (psycopg.Error, ConnectionLostError) as error:
                return error
            except StoreUnavailableError:
                pass  # the new connection broke, too
