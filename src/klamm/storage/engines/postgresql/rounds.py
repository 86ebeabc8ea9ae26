"""Rounds: what a broker appended to many logs becomes durable with one statement.

The statement names for each log the leader epoch and the end that it expects. A log that does not match is
left out: its row was changed by another leader, or by the loss of a connection (see `_resolve`). Everything
that comes back is durable.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from threading import Event
from typing import Any, Final

import psycopg
from psycopg import Connection

from klamm.protocol.errors import ErrorCode
from klamm.storage.cluster import ClusterStoreError, FencedError
from klamm.storage.engines.postgresql.chunks import Chunk, chunks_of
from klamm.storage.engines.postgresql.cluster import PostgresCluster
from klamm.storage.engines.postgresql.connection import (
    RETRIABLE,
    ConnectionLostError,
    Session,
    StoreUnavailableError,
    one_line,
)
from klamm.storage.engines.postgresql.tail import TailBatch
from klamm.storage.log import LogError, SyncTicket

ROUND_BYTES: Final = 1024 * 1024
ROUND_CHUNKS: Final = 200
_MAX_TRIES: Final = 10  # of a statement that deadlocked
_RETRY_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0)  # while the database cannot be reached

_APPEND: Final = """
WITH a AS (
    SELECT * FROM unnest(%b::int[], %b::int[], %b::bigint[], %b::bigint[], %b::bigint[],
                         %b::bytea[], %b::bytea[]) t(p, e, b, l, ts, h, r)),
x AS (SELECT p, e, min(b) b, max(l) l, sum(length(r)) n FROM a GROUP BY p, e),
k AS MATERIALIZED (
    SELECT g.partition_id FROM log g
    JOIN x ON g.partition_id = x.p AND g.leader_epoch = x.e AND g.end_offset = x.b
    ORDER BY 1 FOR NO KEY UPDATE OF g),
u AS (
    UPDATE log SET end_offset = x.l + 1, size_bytes = size_bytes + x.n
    FROM x JOIN k ON k.partition_id = x.p WHERE log.partition_id = x.p RETURNING log.partition_id)
INSERT INTO chunk SELECT a.p, a.l, a.b, a.e, a.ts, a.h, a.r FROM a JOIN u ON u.partition_id = a.p
RETURNING partition_id, last_offset
"""

_logger = logging.getLogger(__name__)


class PostgresTicket:
    """What one log has appended and not yet flushed."""

    __slots__ = ("_rounds", "batches", "chunk_bytes", "chunk_count", "durable_end", "end_offset",
                 "generation", "leader_epoch", "name", "partition_id")  # fmt: skip

    journal = None  # the database has one
    is_journaled = False

    def __init__(
        self,
        rounds: PostgresRounds,
        name: str,
        partition_id: int,
        leader_epoch: int,
        batches: Sequence[TailBatch],
        *,
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

    def files_only(self) -> Sequence[int] | None:
        return None

    def keep_open(self) -> None:
        """Nothing to keep: the ticket has the bytes."""


class PostgresRounds:
    """One connection for rounds; its logs are always flushed here. See `SyncRounds`."""

    def __init__(self, session: Session, cluster: PostgresCluster, is_closing: Event) -> None:
        self._session = session
        self._cluster = cluster
        self._is_closing = is_closing
        self.rounds = 0

    def run(self, tickets: Sequence[SyncTicket]) -> Sequence[Exception | None]:
        ours = [ticket for ticket in tickets if isinstance(ticket, PostgresTicket)]
        assert len(ours) == len(tickets)
        failures: dict[int, Exception] = {}  # by partition id
        try:
            for chunks in _rounds(ours):
                remaining = [chunk for chunk in chunks if chunk.partition_id not in failures]
                if remaining:
                    failures |= self._write(remaining, ours)
        except Exception as error:
            _logger.exception("a round failed unexpectedly")
            failures |= {each.partition_id: error for each in ours if each.partition_id not in failures}
        return [failures.get(ticket.partition_id) for ticket in ours]

    def _write(self, chunks: Sequence[Chunk], tickets: Sequence[PostgresTicket]) -> dict[int, Exception]:
        """Make chunks durable; what became of the logs for which that failed."""
        involved = {chunk.partition_id for chunk in chunks}
        concerned = [ticket for ticket in tickets if ticket.partition_id in involved]
        self.rounds += 1
        try:
            ends = self._execute(chunks)
        except ConnectionLostError as error:
            return self._resolve(concerned, str(error))
        except (psycopg.Error, StoreUnavailableError) as error:
            failure = OSError(f"PostgreSQL refused a round: {one_line(error)}")
            return dict.fromkeys(involved, failure)
        for ticket in concerned:
            ticket.durable_end = max(ticket.durable_end, ends.get(ticket.partition_id, 0))
        for chunk in chunks:
            for ticket in concerned:
                if ticket.partition_id == chunk.partition_id and chunk.partition_id in ends:
                    ticket.chunk_count += 1
        left_out = [ticket for ticket in concerned if ticket.partition_id not in ends]
        return self._resolve(left_out, "the log's epoch or end has changed") if left_out else {}

    def _execute(self, chunks: Sequence[Chunk]) -> dict[int, int]:
        """Send the statement; the new ends, by partition id. Waits for a database that cannot be reached."""
        tries = 0
        waits = 0
        while True:
            try:
                with self._session.use() as connection:
                    return append_chunks(connection, chunks)
            except RETRIABLE:
                tries += 1
                if tries == _MAX_TRIES:
                    raise
            except StoreUnavailableError as error:
                # Not sent: nothing is lost, and the appends stay in memory.
                if not waits:
                    _logger.error("appends wait for PostgreSQL: %s", error)
                self._wait(waits)
                waits += 1

    def _wait(self, waits: int) -> None:
        if self._is_closing.wait(_RETRY_S[min(waits, len(_RETRY_S) - 1)]):
            raise StoreUnavailableError("the store was closed while PostgreSQL could not be reached")

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
                try:
                    self._wait(waits)
                except StoreUnavailableError as closed:
                    reason = str(closed)
                    ends = {}
                    break
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


def append_chunks(connection: Connection[Any], chunks: Sequence[Chunk]) -> dict[int, int]:
    """The statement of a round: the new end of each log, by partition id; others were left out."""
    columns = list(zip(*chunks, strict=True))
    partition_ids, epochs, bases, lasts, times, headers, records = map(list, columns)
    ends: dict[int, int] = {}
    for partition_id, last_offset in connection.execute(
        _APPEND, [partition_ids, epochs, bases, lasts, times, headers, records], prepare=True, binary=True
    ):
        ends[partition_id] = max(ends.get(partition_id, 0), last_offset + 1)
    return ends


def _rounds(tickets: Sequence[PostgresTicket]) -> Iterator[Sequence[Chunk]]:
    """The chunks of tickets, in statements of a limited size."""
    group: list[Chunk] = []
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
