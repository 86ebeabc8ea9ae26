"""The statement of a round, on a thread or on the event loop.

It is sent with libpq's own functions. psycopg's cursor and its adaptation of seven lists need three times the
processor time, and a thread as much again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, repeat
from struct import Struct, pack
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import Connection
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from klamm.storage.engines.postgresql.chunks import ChunkRow
from klamm.storage.engines.postgresql.connection import has_input

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

# What does not match is left out: each log's row must have the epoch, and end where the first chunk begins.
_PREPARE: Final = """
PREPARE klamm_append (int[], int[], bigint[], bigint[], bigint[], bytea[], bytea[]) AS
WITH a AS (SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7) t(p, e, b, l, ts, h, r)),
x AS (SELECT p, e, min(b) b, max(l) l, sum(length(r)) n FROM a GROUP BY p, e),
k AS MATERIALIZED (
    SELECT x.p, x.l, x.n FROM log g
    JOIN x ON g.partition_id = x.p AND g.leader_epoch = x.e AND g.end_offset = x.b
    ORDER BY 1 FOR NO KEY UPDATE OF g),
u AS (
    UPDATE log SET end_offset = k.l + 1, size_bytes = size_bytes + k.n
    FROM k WHERE log.partition_id = k.p)
INSERT INTO chunk SELECT a.p, a.l, a.b, a.e, a.ts, a.h, a.r FROM a JOIN k ON k.p = a.p
RETURNING partition_id, last_offset
"""
_NAME: Final = b"klamm_append"
_BINARY: Final = 1
_ALL_BINARY: Final = (_BINARY,) * 7
_INT4, _INT8, _BYTEA = 23, 20, 17  # oids of the elements
_LENGTH: Final = Struct(">i")

Ends = dict[int, int]  # of logs, by partition id


def prepare_append(connection: Connection[Any]) -> None:
    """To be called once with each connection that appends."""
    connection.execute(_PREPARE)


def append_chunks(connection: Connection[Any], chunks: Sequence[ChunkRow]) -> Ends:
    """Append; blocks. The new end of each log; others were left out. Raises psycopg.Error."""
    result = connection.pgconn.exec_prepared(_NAME, _parameters(chunks), _ALL_BINARY, _BINARY)
    if not _has_rows(result):
        raise error_from_result(result)
    return _ends(result, chunks)


class LoopAppend:
    """An append on the event loop. Nothing here waits."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        connection: Connection[Any],
        when_done: Callable[[Ends | psycopg.Error], None],
    ) -> None:
        self._loop = loop
        self._connection = connection
        self._socket = connection.pgconn.socket
        self._when_done = when_done
        self._chunks: Sequence[ChunkRow] = ()
        self._results: list[PGresult] = []
        self._is_flushing = False

    def send(self, chunks: Sequence[ChunkRow]) -> None:
        """Begin. Raises psycopg.Error."""
        self._chunks = chunks
        pgconn = self._connection.pgconn
        pgconn.send_query_prepared(_NAME, _parameters(chunks), _ALL_BINARY, _BINARY)
        self._is_flushing = bool(pgconn.flush())
        self._loop.add_reader(self._socket, self._receive)
        if self._is_flushing:
            self._loop.add_writer(self._socket, self._flush)

    def _flush(self) -> None:
        try:
            if self._connection.pgconn.flush():
                return
        except psycopg.Error as error:
            self._finish(error)
        else:
            self._loop.remove_writer(self._socket)
            self._is_flushing = False

    def _receive(self) -> None:
        pgconn = self._connection.pgconn
        try:
            while True:
                pgconn.consume_input()
                while not pgconn.is_busy():
                    if (result := pgconn.get_result()) is None:
                        # Rows alone do not say that the transaction is committed: they come before that.
                        self._finish(None)
                        return
                    self._results.append(result)
                # To its end: uvloop reports a connection that was reset once, even if there is input before.
                if not has_input(self._connection):
                    return
        except psycopg.Error as error:
            self._finish(error)

    def _finish(self, lost: psycopg.Error | None) -> None:
        self._loop.remove_reader(self._socket)
        if self._is_flushing:
            self._loop.remove_writer(self._socket)
        refused = next((result for result in self._results if not _has_rows(result)), None)
        if refused is not None:
            self._when_done(error_from_result(refused))
        else:
            self._when_done(lost or _ends(self._results[0], self._chunks))


def _has_rows(result: PGresult) -> bool:
    return result.status == ExecStatus.TUPLES_OK


def _ends(result: PGresult, chunks: Sequence[ChunkRow]) -> Ends:
    if result.ntuples == len(chunks):
        # As usual, all of them; the last one of each log counts.
        return {partition_id: last_offset + 1 for partition_id, _, _, last_offset, *_ in chunks}
    ends: Ends = {}
    for row in range(result.ntuples):
        partition_id = _number(result.get_value(row, 0))
        ends[partition_id] = max(ends.get(partition_id, 0), _number(result.get_value(row, 1)) + 1)
    return ends


def _number(value: bytes | None) -> int:
    assert value is not None
    return int.from_bytes(value, "big")


def _parameters(chunks: Sequence[ChunkRow]) -> list[bytes]:
    """The columns of chunks as arrays in PostgreSQL's binary format."""
    partition_ids, epochs, bases, lasts, times, headers, records = zip(*chunks, strict=True)
    return [
        _integers(_INT4, "ii", 4, partition_ids),
        _integers(_INT4, "ii", 4, epochs),
        _integers(_INT8, "iq", 8, bases),
        _integers(_INT8, "iq", 8, lasts),
        _integers(_INT8, "iq", 8, times),
        _byte_strings(headers),
        _byte_strings(records),
    ]


def _integers(element: int, code: str, size_bytes: int, values: Sequence[int]) -> bytes:
    sized = chain.from_iterable(zip(repeat(size_bytes), values))
    return pack(">5i" + code * len(values), 1, 0, element, len(values), 1, *sized)


def _byte_strings(values: Sequence[bytes]) -> bytes:
    sizes = map(_LENGTH.pack, map(len, values))
    head = pack(">5i", 1, 0, _BYTEA, len(values), 1)
    return b"".join((head, *chain.from_iterable(zip(sizes, values, strict=True))))
