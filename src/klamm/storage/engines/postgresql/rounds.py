"""Rounds: what a broker appended to many logs becomes durable with one statement.

The statement names for each log the leader epoch and the end that it expects. A log that does not match is
left out: its row was changed by another leader, or by the loss of a connection (see `_resolve`). Everything
that comes back is durable.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Final, TypeAlias

import psycopg

from klamm.protocol.errors import ErrorCode
from klamm.storage.cluster import ClusterStoreError, FencedError
from klamm.storage.durability import SyncTicket
from klamm.storage.engines.postgresql.appending import Ends, LoopAppend, append_chunks
from klamm.storage.engines.postgresql.chunks import ChunkRow, chunks_of
from klamm.storage.engines.postgresql.cluster import PostgresCluster
from klamm.storage.engines.postgresql.connection import (
    RETRIABLE,
    ConnectionLostError,
    Session,
    StoreUnavailableError,
    one_line,
)
from klamm.storage.engines.postgresql.tail import TailBatch
from klamm.storage.log import LogError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

RestOfRound: TypeAlias = Callable[[], Sequence[Exception | None]]  # blocks, and does not raise

ROUND_BYTES: Final = 1024 * 1024
ROUND_CHUNKS: Final = 200
_MAX_TRIES: Final = 10  # of a statement that deadlocked
_RETRY_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0)  # while the database cannot be reached

_logger = logging.getLogger(__name__)


class PostgresTicket:
    """What one log has appended and not yet flushed."""

    __slots__ = ("_rounds", "batches", "chunk_bytes", "chunk_count", "durable_end", "end_offset",
                 "generation", "leader_epoch", "name", "partition_id")  # fmt: skip

    def __init__(
        self,
        rounds: PostgresRounds,
        name: str,
        partition_id: int,
        leader_epoch: int,
        batches: Sequence[TailBatch],
        chunk_bytes: int,
        generation: int,
    ) -> None:
        self._rounds = rounds
        self.name = name
        self.partition_id = partition_id
        self.leader_epoch = leader_epoch
        self.batches = batches
        self.chunk_bytes = chunk_bytes
        self.generation = generation  # of the log: a cut makes the ticket meaningless
        self.end_offset = batches[-1].last_offset + 1
        self.durable_end = batches[0].base_offset  # as far as the rounds came
        self.chunk_count = 0

    def run(self) -> None:
        (failure,) = self._rounds.run([self])
        if failure is not None:
            raise failure

    def keep_open(self) -> None:
        """Nothing to keep: the ticket has the bytes."""


class _Round:
    """The statements of one round, and how far it came."""

    def __init__(self, tickets: Sequence[PostgresTicket]) -> None:
        self._tickets = tickets
        self._by_id = {ticket.partition_id: ticket for ticket in tickets}
        self._statements = _statements(tickets)
        self.chunks: Sequence[ChunkRow] = ()  # of the statement that is due
        self.concerned: Sequence[PostgresTicket] = ()  # by it
        self.failures: dict[int, Exception] = {}  # by partition id

    def next(self) -> bool:
        """Go on to the next statement, without the logs that failed; whether there is one."""
        for chunks in self._statements:
            self.chunks = [chunk for chunk in chunks if chunk.partition_id not in self.failures]
            if self.chunks:
                ids = dict.fromkeys(chunk.partition_id for chunk in self.chunks)
                self.concerned = [self._by_id[partition_id] for partition_id in ids]
                return True
        return False

    def made_durable(self, ends: Ends) -> None:
        """What the statement appended."""
        for partition_id, *_ in self.chunks:
            if partition_id in ends:
                ticket = self._by_id[partition_id]
                ticket.chunk_count += 1
                ticket.durable_end = ends[partition_id]

    def left_out(self, ends: Ends) -> Sequence[PostgresTicket]:
        return [ticket for ticket in self.concerned if ticket.partition_id not in ends]

    def fail(self, failures: dict[int, Exception]) -> None:
        self.failures |= failures

    def fail_all(self, error: Exception) -> None:
        self.failures = dict.fromkeys(self._by_id, error) | self.failures

    def outcomes(self) -> Sequence[Exception | None]:
        return [self.failures.get(ticket.partition_id) for ticket in self._tickets]


class PostgresRounds:
    """One connection for rounds; its logs are always flushed here. See `DatabaseRounds`.

    A round runs on the event loop as long as nothing goes wrong, and the rest of it on a thread.
    """

    def __init__(self, session: Session, cluster: PostgresCluster, is_closing: Event) -> None:
        self._session = session
        self._cluster = cluster
        self._is_closing = is_closing
        self.rounds = 0

    def start(
        self,
        tickets: Sequence[SyncTicket],
        loop: AbstractEventLoop,
        when_done: Callable[[RestOfRound | None], None],
    ) -> None:
        """Flush without blocking; `when_done` gets None when all is durable, perhaps before this returns.

        Otherwise it gets what is left to do on a thread, which also gives the outcome of each ticket.
        """
        connection = self._session.take()
        if connection is None:
            when_done(partial(self.run, tickets))
            return
        started = _Round(_ours(tickets))

        def fail(outcome: Ends | Exception) -> None:
            failure = self._session.give_back(outcome if isinstance(outcome, Exception) else None)
            when_done(partial(self._run, started, failure or outcome))

        def go_on(outcome: Ends | psycopg.Error) -> None:
            if isinstance(outcome, psycopg.Error) or started.left_out(outcome):
                fail(outcome)
            else:
                started.made_durable(outcome)
                send_next()

        def send_next() -> None:
            try:
                if started.next():
                    self.rounds += 1
                    LoopAppend(loop, connection, go_on).send(started.chunks)
                    return
            except Exception as error:
                fail(error)
                return
            self._session.give_back()
            when_done(None)

        send_next()

    def run(self, tickets: Sequence[SyncTicket]) -> Sequence[Exception | None]:
        """A round, or one ticket; blocks, and does not raise: the outcome of each ticket."""
        return self._run(_Round(_ours(tickets)))

    def _run(self, started: _Round, outcome: Ends | Exception | None = None) -> Sequence[Exception | None]:
        """A round from its first statement, or from the outcome of one on; blocks."""
        try:
            if outcome is not None:
                self._conclude(started, outcome)
            while started.next():
                self.rounds += 1
                self._conclude(started, self._attempt(started.chunks))
        except Exception as error:
            _logger.exception("a round failed unexpectedly")
            started.fail_all(error)
        return started.outcomes()

    def _conclude(self, started: _Round, outcome: Ends | Exception) -> None:
        """Find out what became of the logs in a statement."""
        tries = 0
        while isinstance(outcome, RETRIABLE) and tries < _MAX_TRIES:
            tries += 1
            outcome = self._attempt(started.chunks)
        if isinstance(outcome, ConnectionLostError):
            started.fail(self._resolve(started.concerned, str(outcome)))
        elif isinstance(outcome, psycopg.Error | StoreUnavailableError):
            failure = OSError(f"PostgreSQL refused a round: {one_line(outcome)}")
            started.fail({ticket.partition_id: failure for ticket in started.concerned})
        elif isinstance(outcome, Exception):
            raise outcome
        else:
            started.made_durable(outcome)
            if left_out := started.left_out(outcome):
                started.fail(self._resolve(left_out, "the log's epoch or end has changed"))

    def _attempt(self, chunks: Sequence[ChunkRow]) -> Ends | Exception:
        """Send the statement. Waits for a database that cannot be reached."""
        waits = 0
        while True:
            try:
                with self._session.use() as connection:
                    return append_chunks(connection, chunks)
            except (psycopg.Error, ConnectionLostError) as error:
                return error
            except StoreUnavailableError as error:
                # Not sent: nothing is lost, and the appends stay in memory.
                if not waits:
                    _logger.error("appends wait for PostgreSQL: %s", error)
                if self._gives_up(waits):
                    return error
                waits += 1

    def _gives_up(self, waits: int) -> bool:
        """Wait before the next try; whether the store was closed meanwhile, so that there is none."""
        return self._is_closing.wait(_RETRY_S[min(waits, len(_RETRY_S) - 1)])

    def _resolve(self, tickets: Sequence[PostgresTicket], reason: str) -> dict[int, Exception]:
        """Find out how far logs came whose statement has an unknown outcome, or that were left out.

        The statement may still run on the server. The next leader epoch fences it: the change waits for the
        lock of each log's row, and afterwards the statement finds another epoch. What it appended before is
        durable. Then the logs are opened again, at that epoch.
        """
        waits = 0
        while True:
            try:
                ends = self._cluster.raise_epochs(
                    {ticket.partition_id: ticket.leader_epoch for ticket in tickets}
                )
                break
            except FencedError as error:
                ends = {}
                reason = str(error)
                break
            except ClusterStoreError as error:
                if not waits:
                    _logger.error("%s; finding out what is durable: %s", reason, error)
                if self._gives_up(waits):
                    closed = LogError(
                        ErrorCode.not_leader_or_follower, f"{reason}; closed without knowing what is durable"
                    )
                    return {ticket.partition_id: closed for ticket in tickets}
                waits += 1
        failures: dict[int, Exception] = {}
        for ticket in tickets:
            end = ends.get(ticket.partition_id)
            if end is None:
                message = f"{reason}; another broker leads it"
            else:
                if not ticket.durable_end <= end <= ticket.end_offset:
                    _logger.error(
                        "%s: the database has its end at offset %d, expected %d to %d: it lost or gained "
                        "commits, as after a failover or a restore",
                        ticket.name,
                        end,
                        ticket.durable_end,
                        ticket.end_offset,
                    )
                ticket.durable_end = min(end, ticket.end_offset)
                message = f"{reason}; led on at epoch {ticket.leader_epoch + 1} from offset {end}"
            failures[ticket.partition_id] = LogError(ErrorCode.not_leader_or_follower, message)
        return failures


def _ours(tickets: Sequence[SyncTicket]) -> Sequence[PostgresTicket]:
    ours = [ticket for ticket in tickets if isinstance(ticket, PostgresTicket)]
    assert len(ours) == len(tickets)
    return ours


def _statements(tickets: Sequence[PostgresTicket]) -> Iterator[Sequence[ChunkRow]]:
    """The chunks of tickets, in statements of a limited size."""
    group: list[ChunkRow] = []
    size_bytes = 0
    for ticket in tickets:
        for chunk in chunks_of(ticket.partition_id, ticket.leader_epoch, ticket.batches, ticket.chunk_bytes):
            if group and (size_bytes + len(chunk.records) > ROUND_BYTES or len(group) == ROUND_CHUNKS):
                yield group
                group, size_bytes = [], 0
            group.append(chunk)
            size_bytes += len(chunk.records)
    if group:
        yield group
