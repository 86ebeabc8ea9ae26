"""Deleting chunks: by retention, below the log start, of deleted topics, above a cut. All of it blocks."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from psycopg import Connection

from klamm.protocol.errors import ErrorCode
from klamm.storage.engines.postgresql.chunks import batches_of, chunks_of
from klamm.storage.engines.postgresql.loading import LoadedLog, load_logs
from klamm.storage.log import LogError
from klamm.storage.topic_config import TopicConfig

SLICE_ROWS: Final = 500  # deleted in one transaction, so that appends do not wait long
_NO_BROKER: Final = -2  # leads nothing: only the partition itself is loaded


class ExpiredChunks(NamedTuple):
    """What retention deleted, and where the log starts now."""

    chunk_count: int
    size_bytes: int
    start_offset: int


def delete_expired(
    connection: Connection[Any],
    partition_id: int,
    leader_epoch: int,
    start_offset: int,
    config: TopicConfig,
    timestamp_ms: int,
) -> ExpiredChunks:
    """Apply retention: raise the log start by time and size, and delete the chunks below it."""
    new_start = start_offset
    if config.deletes_old_segments:
        new_start = max(
            start_offset,
            _start_by_size(connection, partition_id, start_offset, config.retention_bytes),
            _start_by_time(connection, partition_id, start_offset, config.retention_ms, timestamp_ms),
        )
    raise_log_start(connection, partition_id, leader_epoch, new_start)
    chunk_count = size_bytes = 0
    while True:
        count, deleted_bytes = _delete_slice(connection, partition_id, leader_epoch, new_start)
        chunk_count += count
        size_bytes += deleted_bytes
        if count < SLICE_ROWS:
            return ExpiredChunks(chunk_count, size_bytes, new_start)


def raise_log_start(
    connection: Connection[Any], partition_id: int, leader_epoch: int, start_offset: int
) -> None:
    """Raise the log start, if this epoch still leads. Raises LogError if it does not."""
    found = connection.execute(
        "UPDATE log SET start_offset = greatest(start_offset, %s) "
        "WHERE partition_id = %s AND leader_epoch = %s",
        [start_offset, partition_id, leader_epoch],
    ).rowcount
    if not found:
        raise LogError(
            ErrorCode.not_leader_or_follower, f"epoch {leader_epoch} does not lead the log any more"
        )


def _start_by_time(
    connection: Connection[Any], partition_id: int, start_offset: int, retention_ms: int, timestamp_ms: int
) -> int:
    """Where the first chunk begins that is new enough; the end of the log if none is."""
    if retention_ms < 0:
        return start_offset
    # One statement, one snapshot: a chunk that is appended between two would be taken for an old one.
    row = connection.execute(
        "SELECT coalesce((SELECT base_offset FROM chunk WHERE partition_id = %(id)s "
        "AND last_offset >= %(start)s AND max_timestamp >= %(oldest)s ORDER BY last_offset LIMIT 1), "
        "(SELECT max(last_offset) + 1 FROM chunk WHERE partition_id = %(id)s "
        "AND last_offset >= %(start)s))",
        {"id": partition_id, "start": start_offset, "oldest": timestamp_ms - retention_ms},
    ).fetchone()
    return start_offset if row is None or row[0] is None else int(row[0])


def _start_by_size(
    connection: Connection[Any], partition_id: int, start_offset: int, retention_bytes: int
) -> int:
    """Where the log may start so that what is left is at least as large as retention allows."""
    if retention_bytes < 0:
        return start_offset
    row = connection.execute("SELECT size_bytes FROM log WHERE partition_id = %s", [partition_id]).fetchone()
    excess = (row[0] if row is not None else 0) - retention_bytes
    last_offset = start_offset - 1
    while excess > 0:
        rows = connection.execute(
            "SELECT last_offset, length(records) FROM chunk WHERE partition_id = %s AND last_offset > %s "
            "ORDER BY last_offset LIMIT %s",
            [partition_id, last_offset, SLICE_ROWS],
        ).fetchall()
        for each_last, size_bytes in rows:
            excess -= size_bytes
            if excess < 0:
                break
            last_offset = each_last
        if len(rows) < SLICE_ROWS:
            break
    return last_offset + 1


def _delete_slice(
    connection: Connection[Any], partition_id: int, leader_epoch: int, start_offset: int
) -> tuple[int, int]:
    """Delete some chunks below the log start: how many, and their size."""
    row = connection.execute(
        "WITH old AS (SELECT last_offset FROM chunk WHERE partition_id = %(id)s AND last_offset < %(start)s "
        "ORDER BY last_offset LIMIT %(rows)s), "
        "gone AS (DELETE FROM chunk c USING old WHERE c.partition_id = %(id)s "
        "AND c.last_offset = old.last_offset RETURNING length(c.records) AS n), "
        "total AS (SELECT count(*) AS chunks, coalesce(sum(n), 0)::bigint AS bytes FROM gone), "
        "shrunk AS (UPDATE log SET size_bytes = size_bytes - total.bytes FROM total "
        "WHERE partition_id = %(id)s AND leader_epoch = %(epoch)s AND total.chunks > 0) "
        "SELECT chunks, bytes FROM total",
        {"id": partition_id, "start": start_offset, "rows": SLICE_ROWS, "epoch": leader_epoch},
    ).fetchone()
    assert row is not None
    return row[0], row[1]


def delete_orphans(connection: Connection[Any]) -> bool:
    """Delete some chunks of deleted topics; whether there are more. Brokers share the work."""
    with connection.transaction():
        row = connection.execute(
            "SELECT partition_id FROM deleted_partition LIMIT 1 FOR UPDATE SKIP LOCKED"
        ).fetchone()
        if row is None:
            return False
        deleted = connection.execute(
            "DELETE FROM chunk WHERE partition_id = %(id)s AND last_offset IN (SELECT last_offset FROM chunk "
            "WHERE partition_id = %(id)s ORDER BY last_offset LIMIT %(rows)s)",
            {"id": row[0], "rows": SLICE_ROWS},
        ).rowcount
        if deleted < SLICE_ROWS:
            connection.execute("DELETE FROM deleted_partition WHERE partition_id = %s", [row[0]])
    return True


def truncate_log(
    connection: Connection[Any],
    topic: str,
    partition: int,
    partition_id: int,
    leader_epoch: int,
    to_offset: int,
) -> LoadedLog:
    """Cut whole batches off that end at or above an offset; the log as it is then."""
    with connection.transaction():
        row = connection.execute(
            "SELECT start_offset FROM log WHERE partition_id = %s AND leader_epoch = %s FOR NO KEY UPDATE",
            [partition_id, leader_epoch],
        ).fetchone()
        if row is None:
            raise LogError(
                ErrorCode.not_leader_or_follower, f"epoch {leader_epoch} does not lead the log any more"
            )
        cut = connection.execute(
            "DELETE FROM chunk WHERE partition_id = %s AND last_offset >= %s "
            "RETURNING base_offset, leader_epoch, records",
            [partition_id, to_offset],
        ).fetchall()
        for base_offset, epoch, records in cut:
            kept = [batch for batch in batches_of(bytes(records)) if batch.last_offset < to_offset]
            if base_offset < to_offset and kept:
                for chunk in chunks_of(partition_id, epoch, kept):
                    connection.execute(
                        "INSERT INTO chunk (partition_id, leader_epoch, base_offset, last_offset, "
                        "max_timestamp, headers, records) VALUES (%s, %s, %s, %s, %s, %s, %s)",
                        chunk,
                    )
        connection.execute(
            "UPDATE log SET size_bytes = c.n, end_offset = greatest(start_offset, c.next) FROM ("
            "SELECT coalesce(sum(length(records)), 0) AS n, coalesce(max(last_offset) + 1, 0) AS next "
            "FROM chunk WHERE partition_id = %(id)s) c WHERE partition_id = %(id)s",
            {"id": partition_id},
        )
        for table, column in (
            ("aborted", "last_offset"),
            ("epoch_start", "start_offset"),
            ("producer_snapshot", "end_offset"),
        ):
            relation = ">" if table == "producer_snapshot" else ">="
            connection.execute(
                f"DELETE FROM {table} t USING log g WHERE g.partition_id = t.partition_id "
                f"AND t.partition_id = %s AND t.{column} {relation} g.end_offset",
                [partition_id],
            )
        connection.execute(
            "INSERT INTO epoch_start SELECT partition_id, leader_epoch, end_offset FROM log "
            "WHERE partition_id = %s ON CONFLICT DO NOTHING",
            [partition_id],
        )
    return load_logs(connection, topic, partition, _NO_BROKER)[partition]
