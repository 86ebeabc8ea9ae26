"""Compaction of a log in PostgreSQL: chunks are read, cleaned, and replaced. All of it blocks.

A pass maps the keys of what was appended since the last one, then goes over the log from its start. Every
replacement is a transaction that checks the leader epoch; readers see the old chunks or the new ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg import Connection

from klamm.protocol.errors import ErrorCode
from klamm.records.batch import iter_headers, parse_header
from klamm.records.record import decode_records
from klamm.storage.cleaning_batches import BatchCleaner, CleaningRules
from klamm.storage.cleaning_map import KeyOffsetMap
from klamm.storage.cleaning_transactions import TransactionFilter
from klamm.storage.engines.postgresql.chunks import CHUNK_BYTES, ChunkRow, chunks_of
from klamm.storage.engines.postgresql.tail import TailBatch
from klamm.storage.engines.segments.txn_index import AbortedEntry
from klamm.storage.log import LogError

MIN_DIRTY_BYTES: Final = 1024 * 1024  # a pass reads the whole log: not for less than this
_REPLACED_BYTES: Final = 1024 * 1024  # of old chunks, in one transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionJob:
    """A pass over one log, decided on the event loop."""

    partition_id: int
    leader_epoch: int
    bound_offset: int  # only what is durable and decided is cleaned
    max_timestamp_ms: int  # chunks with later records are too young
    aborted: Sequence[AbortedEntry]
    rules: CleaningRules
    map_bytes: int

    def run(self, connection: Connection[Any]) -> int:
        """Clean the log; how many bytes were freed. Raises LogError if another epoch leads it."""
        row = connection.execute(
            "SELECT cleaned_offset, start_offset FROM log WHERE partition_id = %s", [self.partition_id]
        ).fetchone()
        if row is None:
            return 0
        first_dirty = max(row)
        mapped = self._mapped(connection, first_dirty)
        try:
            if mapped.last_offset < first_dirty:
                return 0
            freed_bytes = self._clean(connection, row[1], mapped)
            self._replace(connection, [], [], cleaned_offset=mapped.last_offset + 1)
        finally:
            mapped.clear()
        return freed_bytes

    def _mapped(self, connection: Connection[Any], first_dirty: int) -> KeyOffsetMap:
        """The last offset of each key, until the bound or until the map is full."""
        transactions = TransactionFilter(self.aborted)
        mapped = KeyOffsetMap(self.map_bytes)
        mapped.advance(first_dirty - 1)
        for _, last_offset, records in self._chunks(connection, first_dirty):
            for position, header in iter_headers(records):
                if header.is_control:
                    transactions.on_marker(records, position, header)
                elif not transactions.on_data(header):
                    found = decode_records(records, position, max_bytes=self.rules.max_decompressed_bytes)
                    if not mapped.add(found, first_dirty):
                        return mapped
                mapped.advance(header.last_offset)
            mapped.advance(last_offset)
        return mapped

    def _clean(self, connection: Connection[Any], start_offset: int, mapped: KeyOffsetMap) -> int:
        cleaner = BatchCleaner(self.rules, mapped, TransactionFilter(self.aborted))
        freed_bytes = 0
        old: list[tuple[int, int]] = []  # last offset and size of the chunks to replace
        is_changed = False
        kept: list[tuple[int, TailBatch]] = []  # with their leader epochs
        for epoch, last_offset, records in self._chunks(connection, start_offset):
            cleaned = []
            for position, header in iter_headers(records):
                batch = cleaner.clean(records, position, header)
                if batch is not None:
                    cleaned.append(_as_batch(bytes(batch)))
            if last_offset > mapped.last_offset:
                break
            old.append((last_offset, len(records)))
            kept += [(epoch, batch) for batch in cleaned]
            is_changed |= b"".join(batch.data for batch in cleaned) != records
            if sum(size for _, size in old) >= _REPLACED_BYTES:
                freed_bytes += self._replace_group(connection, old, kept) if is_changed else 0
                old, kept, is_changed = [], [], False
        return freed_bytes + (self._replace_group(connection, old, kept) if is_changed else 0)

    def _replace_group(
        self,
        connection: Connection[Any],
        old: Sequence[tuple[int, int]],
        kept: Sequence[tuple[int, TailBatch]],
    ) -> int:
        new: list[ChunkRow] = []
        for epoch in dict.fromkeys(epoch for epoch, _ in kept):
            of_epoch = [batch for each, batch in kept if each == epoch]
            new += chunks_of(self.partition_id, epoch, of_epoch, CHUNK_BYTES)
        self._replace(connection, [last_offset for last_offset, _ in old], new)
        return sum(size for _, size in old) - sum(len(batch.data) for _, batch in kept)

    def _replace(
        self,
        connection: Connection[Any],
        old: Sequence[int],
        new: Sequence[ChunkRow],
        *,
        cleaned_offset: int = 0,
    ) -> None:
        with connection.transaction():
            row = connection.execute(
                "SELECT 1 FROM log WHERE partition_id = %s AND leader_epoch = %s FOR NO KEY UPDATE",
                [self.partition_id, self.leader_epoch],
            ).fetchone()
            if row is None:
                raise LogError(
                    ErrorCode.not_leader_or_follower,
                    f"epoch {self.leader_epoch} does not lead the log any more",
                )
            removed = connection.execute(
                "DELETE FROM chunk WHERE partition_id = %s AND last_offset = ANY(%s) "
                "RETURNING length(records)",
                [self.partition_id, list(old)],
            ).fetchall()
            for chunk in new:
                connection.execute(
                    "INSERT INTO chunk (partition_id, leader_epoch, base_offset, last_offset, max_timestamp, "
                    "headers, records) VALUES (%s, %s, %s, %s, %s, %s, %s)",
                    chunk,
                )
            freed_bytes = sum(size for (size,) in removed) - sum(len(chunk.records) for chunk in new)
            connection.execute(
                "UPDATE log SET size_bytes = size_bytes - %s, cleaned_offset = greatest(cleaned_offset, %s) "
                "WHERE partition_id = %s",
                [freed_bytes, cleaned_offset, self.partition_id],
            )

    def _chunks(self, connection: Connection[Any], offset: int) -> Iterator[tuple[int, int, bytes]]:
        """(leader epoch, last offset, records) of each chunk that may be cleaned, in order."""
        while True:
            row = connection.execute(
                "SELECT leader_epoch, last_offset, records FROM chunk WHERE partition_id = %s "
                "AND last_offset >= %s AND last_offset < %s ORDER BY last_offset LIMIT 1",
                [self.partition_id, offset, self.bound_offset],
                binary=True,
            ).fetchone()
            if row is None:
                return
            epoch, last_offset, records = row
            if any(header.max_timestamp_ms > self.max_timestamp_ms for _, header in iter_headers(records)):
                return
            yield epoch, last_offset, records
            offset = last_offset + 1


def _as_batch(data: bytes) -> TailBatch:
    header = parse_header(data)
    return TailBatch(header.base_offset, header.last_offset, header.max_timestamp_ms, data)
