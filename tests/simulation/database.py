"""A PostgreSQL server on virtual time: the statements and the fences are real, the clock and faults are not.

Each world has a schema of its own. Functions in it hide the server's clock, so that leases are judged by the
clock of the world. Connections break before a statement is sent, after it has taken effect, or with the
statement under way: that one arrives at the server some time later. Statements are run one at a time on one
thread, so that a seed gives the same run each time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, Final, TypeVar
from uuid import uuid4

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus

from klamm.clock import ManualClock
from klamm.storage.engines.postgresql.connection import Address, StoreUnavailableError
from klamm.testing.virtual_loop import VirtualLoop
from postgresql import PostgresServer

Result = TypeVar("Result")

BYSTANDER: Final = -1  # whose connections do not break
_LATE_MS: Final = (0, 1, 10, 100, 1_000, 3_000)  # when a statement arrives whose connection broke
_TIMED: Final = frozenset({"lease", "cluster"})  # purposes of connections whose statements ask for the time
_CLOCK: Final = """
CREATE FUNCTION {schema}.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
$$ SELECT timestamptz 'epoch' + current_setting('simulation.now_ms')::bigint * interval '1 ms' $$;
CREATE FUNCTION {schema}.pg_postmaster_start_time() RETURNS timestamptz LANGUAGE sql VOLATILE AS
$$ SELECT timestamptz 'epoch' + current_setting('simulation.started_ms')::bigint * interval '1 ms' $$;
"""


class SimulatedDatabase:
    """One world's database, and what goes wrong with connections to it."""

    def __init__(self, server: PostgresServer, loop: VirtualLoop, clock: ManualClock, random: Random) -> None:
        self.loop, self.clock, self.random = loop, clock, random
        self.loss_rate = 0.0  # of statements whose connection breaks
        self.losses: dict[str, int] = {}  # by when the connection broke
        self.notices = 0  # changes that were announced
        self.started_ms = -1_000_000  # when the server was last started
        self._connections: list[SimulatedConnection] = []
        self._schema = f"world_{uuid4().hex[:12]}"
        self._admin = psycopg.connect(server.url, autocommit=True)
        self._admin.execute(f"CREATE SCHEMA {self._schema}")
        self._admin.execute(_CLOCK.format(schema=self._schema))
        # With its schema before the server's own, whose functions would be found first.
        self.url = f"{server.url}?options=-c%20search_path%3D{self._schema},pg_catalog"

    def address_of(self, owner: int) -> Callable[[str], Address]:
        """Makes the address that a broker uses."""
        return lambda url: SimulatedAddress(url, self, owner)

    def connected(self, connection: SimulatedConnection) -> None:
        self._connections.append(connection)

    def cut(self, owner: int | None = None, purpose: str | None = None) -> None:
        """Break idle connections: of one broker or all, for one purpose or all."""
        for each in list(self._connections):
            is_meant = owner in (None, each.owner) and purpose in (None, each.purpose)
            if is_meant and each.owner != BYSTANDER:
                each.cut()

    def restart(self) -> None:
        """All connections are gone, and all locks."""
        self.cut()
        self.started_ms = self.clock.now_ms()

    def ended(self, connection: SimulatedConnection) -> None:
        """Wait until the server has noticed: its locks are free, its transaction is rolled back."""
        self._connections.remove(connection)
        deadline = time.monotonic() + 60
        while self._rows("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [connection.server_pid]):
            assert time.monotonic() < deadline, "the server does not end a session"
            time.sleep(0.0005)

    def misplaced(self) -> list[tuple[Any, ...]]:
        """Batches that were appended after the next leader epoch had begun, or before their own had."""
        self._admin.execute(f"SET search_path = {self._schema}, pg_catalog")
        return self._rows(
            "SELECT c.partition_id, c.leader_epoch, c.base_offset FROM chunk c WHERE "
            "EXISTS (SELECT 1 FROM epoch_start e WHERE e.partition_id = c.partition_id "
            "AND e.leader_epoch > c.leader_epoch AND e.start_offset < c.last_offset + 1) "
            "OR c.base_offset < (SELECT start_offset FROM epoch_start e "
            "WHERE e.partition_id = c.partition_id AND e.leader_epoch = c.leader_epoch)",
            [],
        )

    def _rows(self, statement: str, values: list[Any]) -> list[tuple[Any, ...]]:
        return self._admin.execute(statement, values).fetchall()

    def close(self) -> None:
        for connection in list(self._connections):
            connection.finish()
        self._admin.execute(f"DROP SCHEMA {self._schema} CASCADE")
        self._admin.close()


class SimulatedAddress(Address):
    """Where one broker finds the database."""

    def __init__(self, url: str, database: SimulatedDatabase, owner: int) -> None:
        super().__init__(url)
        self._url = url
        self._database = database
        self._owner = owner

    def connect(self, purpose: str, *, statement_timeout_ms: int = 0) -> SimulatedConnection:
        try:
            connection = SimulatedConnection.connect(self._url, autocommit=True)
        except psycopg.Error as error:
            raise StoreUnavailableError(str(error)) from error
        connection.belong(self._database, self._owner, purpose)
        return connection


class SimulatedConnection(psycopg.Connection[Any]):
    """A connection that breaks at random. What it sends is real."""

    database: SimulatedDatabase
    owner: int
    purpose: str

    def belong(self, database: SimulatedDatabase, owner: int, purpose: str) -> None:
        self.server_pid = self.info.backend_pid
        self._is_cut = False
        self._is_probing = False
        self._told: tuple[int, int] | None = None  # the times that the server was told
        self.database, self.owner, self.purpose = database, owner, purpose
        database.connected(self)

    @property
    def closed(self) -> bool:
        return getattr(self, "_is_cut", False) or super().closed

    def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:
        # Whether an idle connection is probed depends on real time: it must not use up any chance.
        self._is_probing = query == "SELECT 1"
        try:
            if self.purpose in _TIMED:
                self._tell_time()
            return super().execute(query, *arguments, **options)
        finally:
            self._is_probing = False

    def transaction(self, *arguments: Any, **options: Any) -> Any:
        if self.purpose in _TIMED:
            self._tell_time()
        return super().transaction(*arguments, **options)

    def _tell_time(self) -> None:
        # Not in a transaction: its end might undo it.
        times = (self.database.clock.now_ms(), self.database.started_ms)
        if times != self._told and self.pgconn.transaction_status == TransactionStatus.IDLE:
            self._told = times
            with self.cursor() as cursor:
                super().wait(
                    cursor._execute_gen(
                        "SELECT set_config('simulation.now_ms', %s, false), "
                        "set_config('simulation.started_ms', %s, false)",
                        [str(times[0]), str(times[1])],
                    )
                )

    def wait(self, gen: PQGen[Result], *arguments: Any, **options: Any) -> Result:
        return self.risk(partial(super().wait, gen, *arguments, **options))

    def risk(self, send: Callable[[], Result]) -> Result:
        """Send a statement, and receive its result if the connection does not break."""
        kind = self.breaks() if hasattr(self, "database") and not self._is_probing else ""
        if not kind:
            return send()
        if kind == "late":
            self.arrive_later(send)
        else:
            if kind == "after":
                send()
            self.cut()
        raise psycopg.OperationalError(f"the connection broke {kind} a statement")

    def breaks(self) -> str:
        """When it breaks: "before" the next statement, "after" it, or with it under way ("late"); or ""."""
        database = self.database
        if self.owner == BYSTANDER or database.random.random() >= database.loss_rate:
            return ""
        kinds = ["before", "after"]
        if self.purpose == "appends" and self.pgconn.transaction_status == TransactionStatus.IDLE:
            # In a transaction it would keep locks, and this one thread would wait for them.
            kinds.append("late")
        kind = database.random.choice(kinds)
        database.losses[kind] = database.losses.get(kind, 0) + 1
        return kind

    def arrive_later(self, send: Callable[[], object]) -> None:
        """The connection breaks, and what was sent arrives at the server some time later."""
        self._is_cut = True
        delay_ms = self.database.random.choice(_LATE_MS)
        self.database.loop.call_later(delay_ms / 1000, self._arrive, send)

    def _arrive(self, send: Callable[[], object]) -> None:
        """The server runs a statement whose client is gone, as is whoever would hear of an error."""
        with suppress(psycopg.Error):
            send()
        self.finish()

    def cut(self) -> None:
        """The connection breaks."""
        if not self.closed:
            self.finish()

    def close(self) -> None:
        if not self.closed and hasattr(self, "database"):
            self.cut()

    def finish(self) -> None:
        self._is_cut = True
        self.pgconn.finish()
        self.database.ended(self)
