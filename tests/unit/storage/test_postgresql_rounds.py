"""Rounds on the event loop: what is done there, and what is left for a thread after a failure."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random
from typing import Any

import psycopg
import pytest
import uvloop

from internals.tcp_proxy import TcpProxy
from klamm.clock import ManualClock
from klamm.protocol.errors import ErrorCode
from klamm.storage.cluster import BrokerRegistration
from klamm.storage.engines.postgresql.cluster import PostgresCluster
from klamm.storage.engines.postgresql.rounds import PostgresTicket, RestOfRound
from klamm.storage.log import LogError
from klamm.testing import wait_until
from postgresql import PostgresServer
from unit.storage.log_samples import TOPIC_ID, a_batch, append, read_all
from unit.storage.postgresql_world import TestingStore, bare, clock, cluster, open_log

__all__ = ["clock", "cluster"]  # fixtures


class Desk:
    """A store with one connection for rounds, and the loop on which they run."""

    def __init__(self, store: TestingStore, url: str, loop: asyncio.AbstractEventLoop) -> None:
        self.store = store
        self.loop = loop
        self.logs: list[Any] = []
        self._url = url
        self.rests: list[RestOfRound] = []

    @property
    def rounds(self) -> Any:
        rounds = self.store._rounds
        return rounds

    @property
    def connection(self) -> Any:
        session = self.store._writing
        connection = session._connection
        assert connection is not None
        return connection

    @property
    def is_cut(self) -> bool:
        session = self.store._writing
        return session._connection is None

    def open(self, count: int) -> Sequence[Any]:
        self.store.lead("t", TOPIC_ID, count - 1, 0)
        self.logs = [open_log(self.store, partition=each) for each in range(count)]
        return self.logs

    def tickets(self) -> list[PostgresTicket]:
        started = [bare(log).start_sync() for log in self.logs]
        return [ticket for ticket in started if isinstance(ticket, PostgresTicket)]

    def flush(self, meanwhile: Callable[[], None] = lambda: None) -> Sequence[Exception | None]:
        """Flush all that is dirty, as a flusher does: the outcomes. `meanwhile` runs while the round does."""
        tickets = self.tickets()
        done: asyncio.Future[RestOfRound | None] = self.loop.create_future()

        async def flush() -> Sequence[Exception | None]:
            self.rounds.start(tickets, self.loop, done.set_result)
            await self.loop.run_in_executor(None, meanwhile)
            rest = await asyncio.wait_for(done, 30)
            if rest is None:
                return [None] * len(tickets)
            self.rests.append(rest)
            return await self.loop.run_in_executor(None, rest)

        outcomes = self.loop.run_until_complete(flush())
        logs = {bare(log).partition_id: log for log in self.logs}
        for ticket, outcome in zip(tickets, outcomes, strict=True):
            log = logs[ticket.partition_id]
            (log.finish_sync if outcome is None else log.fail_sync)(ticket)
        return outcomes

    @contextmanager
    def locked(self, partition: int = 0) -> Iterator[Any]:
        """Another session has the log's row, so that a round waits."""
        with psycopg.connect(self._url) as connection:
            connection.execute(
                "SELECT 1 FROM log WHERE partition_id = %s FOR UPDATE",
                [bare(self.logs[partition]).partition_id],
            )
            yield connection
            connection.rollback()

    def wait_for_lock(self, statement_count: int = 1) -> None:
        """Until the round waits for the lock of a row, with its first statement or a later one."""
        pid = self.connection.info.backend_pid
        waiting = f"SELECT query_start FROM pg_stat_activity WHERE pid = {pid} AND wait_event_type = 'Lock'"
        seen: set[Any] = set()

        def have_waited() -> bool:
            seen.update(self.store.rows(waiting))
            return len(seen) >= statement_count

        wait_until(have_waited)


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> Iterator[asyncio.AbstractEventLoop]:
    loop = request.param()
    yield loop
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


@pytest.fixture
def desk(cluster: PostgresCluster, clock: ManualClock, loop: asyncio.AbstractEventLoop) -> Iterator[Desk]:
    store = TestingStore(cluster, clock=clock)
    yield Desk(store, cluster.address._url, loop)
    store.close()


@pytest.fixture
def connected(desk: Desk) -> Desk:
    return with_logs(desk)


def with_logs(desk: Desk) -> Desk:
    """Three logs with a durable batch each."""
    for log in desk.open(3):
        append(log)
    assert desk.flush() == [None] * 3
    assert len(desk.rests) == 1, "a thread makes the connection"
    desk.rests.clear()
    return desk


def ends(desk: Desk) -> list[int]:
    return [end for (end,) in desk.store.rows("SELECT end_offset FROM log ORDER BY partition_id")]


def test_a_round_needs_no_thread(connected: Desk) -> None:
    for log in connected.logs[:2]:
        append(log, a_batch(2))
    assert connected.flush() == [None, None]
    assert not connected.rests
    assert ends(connected) == [3, 3, 1]
    assert [log.high_watermark for log in connected.logs] == [3, 3, 1]


def test_a_large_round_is_several_statements_without_a_thread(connected: Desk) -> None:
    batches = [a_batch(value=bytes([number]) * 700_000) for number in range(4)]
    for number, batch in enumerate(batches):
        append(connected.logs[number % 2], batch)
    before = connected.rounds.rounds
    assert connected.flush() == [None, None]
    assert not connected.rests
    assert connected.rounds.rounds - before > 1
    assert ends(connected) == [3, 3, 1]
    (stored,) = connected.store.rows(
        f"SELECT records FROM chunk WHERE partition_id = {bare(connected.logs[0]).partition_id} "
        "AND last_offset = 1"
    )
    assert stored[0][61:] == bytes(batches[0])[61:]


def test_nothing_waits_on_the_loop_while_the_server_stands_still(connected: Desk) -> None:
    append(connected.logs[0], a_batch(value=bytes(900_000)))  # perhaps more than the kernel's buffers take
    pid = connected.connection.info.backend_pid
    ticks = []

    async def tick() -> None:
        while True:
            ticks.append(1)
            await asyncio.sleep(0)

    def stand_still() -> None:
        before = len(ticks)
        wait_until(lambda: len(ticks) > before + 100)
        os.kill(pid, signal.SIGCONT)

    ticking = connected.loop.create_task(tick())
    os.kill(pid, signal.SIGSTOP)
    assert connected.flush(stand_still) == [None]
    ticking.cancel()
    assert not connected.rests
    assert ends(connected)[0] == 2


def test_a_connection_that_ended_while_it_was_idle_is_made_anew_without_another_epoch(
    connected: Desk, postgres: PostgresServer, cluster: PostgresCluster
) -> None:
    postgres.execute(f"SELECT pg_terminate_backend({connected.connection.info.backend_pid}, 5000)")
    append(connected.logs[0])
    assert connected.flush() == [None]
    assert len(connected.rests) == 1
    assert ends(connected)[0] == 2
    assert cluster.topics()["t"].partitions[0].leader_epoch == 0


def test_a_fenced_log_is_left_out_and_the_others_are_durable(
    connected: Desk, cluster: PostgresCluster, clock: ManualClock
) -> None:
    for log in connected.logs:
        append(log)
    other = TestingStore(cluster, clock=clock)
    open_log(other, leader_epoch=1, partition=1)
    fenced, *durable = sorted(connected.flush(), key=lambda outcome: outcome is None)
    assert isinstance(fenced, LogError)
    assert fenced.error_code is ErrorCode.not_leader_or_follower
    assert durable == [None, None]
    assert ends(connected) == [2, 1, 2]
    assert [log.high_watermark for log in connected.logs] == [2, 1, 2]
    other.close()


def test_a_session_that_is_ended_in_a_round_is_resolved_by_the_next_epoch(
    connected: Desk, postgres: PostgresServer, cluster: PostgresCluster
) -> None:
    for log in connected.logs[:2]:
        append(log)
    pid = connected.connection.info.backend_pid
    with connected.locked(1) as lock:

        def end_session() -> None:
            connected.wait_for_lock()
            postgres.execute(f"SELECT pg_terminate_backend({pid}, 5000)")
            lock.rollback()

        outcomes = connected.flush(end_session)
    assert [getattr(outcome, "error_code", None) for outcome in outcomes] == [
        ErrorCode.not_leader_or_follower
    ] * 2
    assert "terminating connection" in str(outcomes[0])
    assert ends(connected) == [1, 1, 1]
    assert [each.leader_epoch for each in cluster.topics()["t"].partitions] == [1, 1, 0]
    assert [log.log_end_offset for log in connected.logs] == [1, 1, 1]


def test_a_connection_that_is_cut_in_a_round_may_leave_it_durable(
    connected: Desk, cluster: PostgresCluster
) -> None:
    """The server never learns of it: the statement goes on, and what it appended is found."""
    append(connected.logs[0])
    running = (
        "SELECT 1 FROM pg_stat_activity WHERE state = 'active' "
        f"AND pid = {connected.connection.info.backend_pid}"
    )
    with connected.locked() as lock:

        def cut() -> None:
            connected.wait_for_lock()
            with socket.socket(fileno=os.dup(connected.connection.pgconn.socket)) as wire:
                wire.shutdown(socket.SHUT_RD)
            wait_until(lambda: connected.is_cut)
            lock.rollback()
            # A change that comes now could lock the row before the statement is awake: it would be left out.
            wait_until(lambda: not connected.store.rows(running))

        (outcome,) = connected.flush(cut)
    assert isinstance(outcome, LogError)
    assert "epoch 1 from offset 2" in str(outcome)
    assert connected.logs[0].high_watermark == 2
    assert cluster.topics()["t"].partitions[0].leader_epoch == 1
    connected.store.abandon("t", 0)
    assert len(read_all(open_log(connected.store, leader_epoch=1))) == 2


def test_a_server_that_crashes_with_a_warning_is_noticed_in_a_round(
    postgres: PostgresServer, clock: ManualClock, loop: asyncio.AbstractEventLoop
) -> None:
    """PostgreSQL sends one, and the kernel resets the connection if the server had unread input."""
    fields = b"SWARNING\0C57P02\0Mterminating connection because of crash of another server process\0\0"
    warning = b"N" + (len(fields) + 4).to_bytes(4, "big") + fields
    with TcpProxy(postgres.port) as proxy:
        url = postgres.new_schema()
        cluster = PostgresCluster(url.replace(f":{postgres.port}/", f":{proxy.port}/"), random=Random(1))
        cluster.register(BrokerRegistration(1, None, {}))
        store = TestingStore(cluster, clock=clock)
        desk = with_logs(Desk(store, url, loop))
        append(desk.logs[0])
        with desk.locked() as lock:

            def crash() -> None:
                desk.wait_for_lock()
                loop.call_soon_threadsafe(proxy.crash, warning)  # so that it finds both at once
                wait_until(lambda: desk.is_cut)
                lock.rollback()

            (outcome,) = desk.flush(crash)
        assert isinstance(outcome, LogError)
        assert outcome.error_code is ErrorCode.not_leader_or_follower
        store.close()
        cluster.close()


def test_an_error_at_the_commit_is_no_success(connected: Desk) -> None:
    """The rows have come back by then."""
    with connected.store._reading[0].use() as connection:
        connection.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$BEGIN RAISE EXCEPTION USING ERRCODE = 'disk_full'; END$$"
        )
        connection.execute(
            "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON chunk DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION refuse()"
        )
    append(connected.logs[0])
    (outcome,) = connected.flush()
    assert isinstance(outcome, OSError)
    assert connected.logs[0].log_end_offset == 1
    with connected.store._reading[0].use() as connection:
        connection.execute("DROP TRIGGER refuse ON chunk")
    connected.rests.clear()
    append(connected.logs[0])
    assert connected.flush() == [None]
    assert not connected.rests, "the connection is as good as before"


def test_a_statement_that_gave_up_on_a_lock_is_repeated(connected: Desk) -> None:
    append(connected.logs[0])
    connected.connection.execute("SET lock_timeout = '200ms'")  # ten times that is enough to see it twice
    with connected.locked() as lock, ThreadPoolExecutor(1) as thread:
        release = thread.submit(connected.wait_for_lock, statement_count=2)
        release.add_done_callback(lambda _: lock.rollback())
        assert connected.flush() == [None]
    assert ends(connected)[0] == 2


def test_a_round_that_finds_its_connection_in_use_waits_on_a_thread(connected: Desk) -> None:
    append(connected.logs[0])
    session = connected.store._writing
    lock = session._lock
    assert lock.acquire(timeout=30)
    with ThreadPoolExecutor(1) as thread:
        flushed = thread.submit(connected.flush, lock.release)
        assert flushed.result(30) == [None]
    assert len(connected.rests) == 1
