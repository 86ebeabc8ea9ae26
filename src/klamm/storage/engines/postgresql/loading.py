"""Reading logs from PostgreSQL: opening them, older batches, and lookups by time. All of it blocks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from psycopg import Connection

from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.records.batch import CONTROL_BIT, HEADER_BYTES, BatchHeader, iter_headers, parse_header
from klamm.records.markers import decode_marker
from klamm.storage.engines.postgresql.chunks import (
    CachedChunk,
    ChunkCache,
    batches_of,
    find_timestamp,
    max_timestamp_ms,
)
from klamm.storage.engines.segments.epochs import EpochEntry, LeaderEpochs
from klamm.storage.engines.segments.txn_index import AbortedEntry
from klamm.storage.log import LogError, TimestampedOffset
from klamm.storage.producer_snapshot import decode_snapshot
from klamm.storage.producer_state import ProducerState

READ_CHUNKS: Final = 256  # rows that one read looks at
MAX_READ_BYTES: Final = 4 * 1024 * 1024

_LOGS: Final = """
SELECT p.partition, p.partition_id, t.topic_id, g.leader_epoch, g.start_offset, g.end_offset, g.size_bytes
FROM topic t JOIN partition p USING (topic_id) JOIN log g USING (partition_id)
WHERE t.name = %s AND (p.partition = %s OR p.leader_id = %s)
"""
_HEADERS: Final = """
SELECT c.partition_id, c.base_offset, c.last_offset, c.headers FROM chunk c
LEFT JOIN producer_snapshot s USING (partition_id)
WHERE c.partition_id = ANY(%s) AND c.last_offset >= coalesce(s.end_offset, 0)
ORDER BY c.partition_id, c.last_offset
"""
_READ: Final = """
SELECT last_offset, records FROM chunk WHERE partition_id = %(id)s AND last_offset >= %(offset)s
AND last_offset <= (
    SELECT max(last_offset) FROM (
        SELECT last_offset, sum(n) OVER (ORDER BY last_offset) - n AS before FROM (
            SELECT last_offset, length(records) AS n FROM chunk
            WHERE partition_id = %(id)s AND last_offset >= %(offset)s
            ORDER BY last_offset LIMIT %(rows)s) c) w
    WHERE before < %(bytes)s)
ORDER BY last_offset
"""


@dataclass(slots=True)
class LoadedLog:
    """What a log is opened with."""

    partition_id: int
    topic_id: bytes
    leader_epoch: int
    start_offset: int
    end_offset: int
    size_bytes: int
    epochs: LeaderEpochs = field(default_factory=lambda: LeaderEpochs("", []))
    aborted: list[AbortedEntry] = field(default_factory=list)
    snapshot_end: int = 0  # producers and aborted transactions below it are saved
    producers: ProducerState = field(default_factory=ProducerState)
    chunk_count: int = 0  # above the snapshot


def load_logs(
    connection: Connection[Any], topic: str, partition: int, broker_id: int
) -> Mapping[int, LoadedLog]:
    """A partition's log, and those of the topic that the same broker leads. Raises LogError."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        logs: dict[int, LoadedLog] = {}
        for number, partition_id, topic_id, epoch, start, end, size_bytes in connection.execute(
            _LOGS, [topic, partition, broker_id]
        ):
            logs[number] = LoadedLog(partition_id, topic_id.bytes, epoch, start, end, size_bytes)
        by_id = {log.partition_id: log for log in logs.values()}
        ids = [list(by_id)]
        for partition_id, epoch, start in connection.execute(
            "SELECT partition_id, leader_epoch, start_offset FROM epoch_start "
            "WHERE partition_id = ANY(%s) ORDER BY leader_epoch",
            ids,
        ):
            by_id[partition_id].epochs.assign(*EpochEntry(epoch, start))
        for partition_id, *entry in connection.execute(
            "SELECT a.partition_id, producer_id, first_offset, last_offset, last_stable_offset "
            "FROM aborted a JOIN log g USING (partition_id) WHERE a.partition_id = ANY(%s) "
            "AND a.last_offset >= g.start_offset ORDER BY a.last_offset",
            ids,
        ):
            by_id[partition_id].aborted.append(AbortedEntry(*entry))
        for partition_id, end, state in connection.execute(
            "SELECT partition_id, end_offset, state FROM producer_snapshot WHERE partition_id = ANY(%s)", ids
        ):
            by_id[partition_id].snapshot_end = end
            by_id[partition_id].producers = ProducerState(decode_snapshot(bytes(state)))
        _replay(connection, by_id)
    for log in logs.values():
        log.producers.advance(log.end_offset)
        log.epochs.truncate_start(log.start_offset)
    return logs


def _replay(connection: Connection[Any], by_id: Mapping[int, LoadedLog]) -> None:
    """Apply the batches above the snapshots to the producer state."""
    wanted: dict[int, list[int]] = defaultdict(list)  # chunks with markers, whose kind the header lacks
    rows = connection.execute(_HEADERS, [list(by_id)]).fetchall()
    for partition_id, _, last_offset, headers in rows:
        if any(header.attributes & CONTROL_BIT for header in _headers(headers)):
            wanted[partition_id].append(last_offset)
    markers = {
        (partition_id, header.base_offset): decode_marker(records, position)
        for partition_id, lasts in wanted.items()
        for (records,) in connection.execute(
            "SELECT records FROM chunk WHERE partition_id = %s AND last_offset = ANY(%s)",
            [partition_id, lasts],
        )
        for position, header in iter_headers(records)
        if header.attributes & CONTROL_BIT
    }
    known_markers = {(pid, entry.last_offset) for pid, log in by_id.items() for entry in log.aborted}
    for partition_id, _, _, headers in rows:
        log = by_id[partition_id]
        log.chunk_count += 1
        for header in _headers(headers):
            if header.producer_id < 0 or header.last_offset < log.snapshot_end:
                continue
            completed = log.producers.update(
                header, header.base_offset, markers.get((partition_id, header.base_offset))
            )
            if (
                completed is not None
                and completed.is_aborted
                and (partition_id, completed.last_offset) not in known_markers
            ):
                log.aborted.append(AbortedEntry.of(completed))


def _headers(headers: bytes) -> list[BatchHeader]:
    """The headers of a chunk; each is the first bytes of a batch."""
    try:
        return [parse_header(headers, position) for position in range(0, len(headers), HEADER_BYTES)]
    except DecodeError as error:
        raise LogError(ErrorCode.kafka_storage_error, f"invalid batch headers of a chunk: {error}") from error


def read_chunks(
    connection: Connection[Any],
    cache: ChunkCache,
    partition_id: int,
    offset: int,
    tail_start: int,
    max_bytes: int,
) -> None:
    """Read chunks from the one that has an offset into the cache, of about a size."""
    rows = connection.execute(
        _READ,
        {
            "id": partition_id,
            "offset": offset,
            "rows": READ_CHUNKS,
            "bytes": max(1, min(max_bytes, MAX_READ_BYTES)),
        },
        binary=True,
    ).fetchall()
    covers_from = offset
    found: list[CachedChunk] = []
    for last_offset, records in rows:
        found.append(CachedChunk(last_offset, covers_from, batches_of(records), len(records)))
        covers_from = last_offset + 1
    if not found:
        # Compaction removed everything between here and what is in memory.
        found.append(CachedChunk(tail_start - 1, offset, (), 0))
    for chunk in reversed(found):  # the first one last: it must not be evicted by the others
        cache.add(partition_id, chunk)


def look_up_timestamp(
    connection: Connection[Any], partition_id: int, timestamp_ms: int, start_offset: int, until_offset: int
) -> TimestampedOffset:
    """The first record at or after a timestamp in a range of offsets."""
    last_offset = start_offset - 1
    while True:
        row = connection.execute(
            "SELECT last_offset, records FROM chunk WHERE partition_id = %s AND last_offset > %s "
            "AND base_offset < %s AND max_timestamp >= %s ORDER BY last_offset LIMIT 1",
            [partition_id, last_offset, until_offset, timestamp_ms],
            binary=True,
        ).fetchone()
        if row is None:
            return TimestampedOffset()
        last_offset, records = row
        found = find_timestamp(batches_of(records), timestamp_ms, start_offset, until_offset)
        if found is not None:
            return found


def look_up_max_timestamp(
    connection: Connection[Any], partition_id: int, start_offset: int, until_offset: int
) -> TimestampedOffset:
    """The first record with the largest timestamp in a range of offsets; -1, of those without one, counts."""
    (best_ms,) = connection.execute(
        "SELECT coalesce(max(max_timestamp), -1) FROM chunk "
        "WHERE partition_id = %s AND base_offset >= %s AND last_offset < %s",
        [partition_id, start_offset, until_offset],
    ).fetchone() or (-1,)
    edges: Sequence[tuple[bytes]] = connection.execute(
        "SELECT records FROM chunk WHERE partition_id = %(id)s AND last_offset >= %(start)s "
        "AND ((base_offset < %(start)s) OR (base_offset < %(until)s AND last_offset >= %(until)s))",
        {"id": partition_id, "start": start_offset, "until": until_offset},
        binary=True,
    ).fetchall()
    for (records,) in edges:
        inside = [batch for batch in batches_of(records) if batch.last_offset < until_offset]
        best_ms = max(best_ms, max_timestamp_ms(inside, start_offset))
    return look_up_timestamp(connection, partition_id, best_ms, start_offset, until_offset)
