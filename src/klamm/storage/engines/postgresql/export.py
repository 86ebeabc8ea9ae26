"""Reading logs out of PostgreSQL without being a broker: for `klamm dump`, and as Kafka's segment files.

Nothing is changed in the database, and no transaction is kept open: a reader may be as slow as it likes. What
retention deletes meanwhile is missing at the beginning of the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import Connection

from klamm.clock import Clock
from klamm.records.batch import iter_headers
from klamm.storage.engines.postgresql.connection import Address, StoreUnavailableError, unavailable
from klamm.storage.engines.postgresql.schema import require_schema
from klamm.storage.engines.segments import SegmentStore, names
from klamm.storage.engines.segments.checkpoints import encode_partition_metadata
from klamm.storage.engines.segments.epochs import EpochEntry, encode_epochs
from klamm.storage.topic_config import TopicConfig

_PAGE_ROWS: Final = 32  # of at most 256 KiB each, unless a batch is larger
_MAX_RELATIVE_OFFSET: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class StoredLog:
    """A partition's log in the database, as it was when it was found."""

    topic: str
    partition: int
    topic_id: bytes
    partition_id: int
    leader_epoch: int
    start_offset: int
    end_offset: int
    segment_bytes: int | None  # None: the topic has the default


class DatabaseLogs:
    """The logs of one database."""

    def __init__(self, connection: Connection[Any], address: Address) -> None:
        self._connection = connection
        self.cluster_id = require_schema(connection, address)
        self._address = address

    def find(self, topic: str, partition: int) -> StoredLog:
        """Raises StoreUnavailableError if there is no such partition."""
        row = self._connection.execute(
            "SELECT t.topic_id, partition_id, g.leader_epoch, g.start_offset, g.end_offset, c.value::bigint "
            "FROM topic t JOIN partition p USING (topic_id) JOIN log g USING (partition_id) "
            "LEFT JOIN config c ON c.resource_type = 2 AND c.resource = t.name AND c.name = 'segment.bytes' "
            "WHERE t.name = %s AND p.partition = %s",
            [topic, partition],
        ).fetchone()
        if row is None:
            raise StoreUnavailableError(
                f"{self._address.text} has no partition {topic}-{partition}; `klamm dump --store` without a "
                "partition lists them"
            )
        topic_id, *rest = row
        return StoredLog(topic, partition, topic_id.bytes, *rest)

    def names(self) -> list[tuple[str, int, int, int, int]]:
        """Of all partitions: topic, partition, start and end offset, and size in bytes."""
        return self._connection.execute(
            "SELECT t.name, p.partition, g.start_offset, g.end_offset, g.size_bytes "
            "FROM topic t JOIN partition p USING (topic_id) JOIN log g USING (partition_id) ORDER BY 1, 2"
        ).fetchall()

    def batches(self, log: StoredLog) -> Iterator[bytes]:
        """Its batches from the log start on, each as it is stored."""
        last_offset = log.start_offset - 1
        while True:
            rows = self._connection.execute(
                "SELECT last_offset, records FROM chunk WHERE partition_id = %s AND last_offset > %s "
                "AND base_offset < %s ORDER BY last_offset LIMIT %s",
                [log.partition_id, last_offset, log.end_offset, _PAGE_ROWS],
                binary=True,
            ).fetchall()
            for last_offset, records in rows:  # noqa: B007  # where the next page begins
                for position, header in iter_headers(records):
                    if header.last_offset >= log.start_offset:
                        yield records[position : position + header.size_bytes]
            if len(rows) < _PAGE_ROWS:
                return

    def epochs(self, log: StoredLog) -> list[EpochEntry]:
        return [
            EpochEntry(*row)
            for row in self._connection.execute(
                "SELECT leader_epoch, greatest(start_offset, %s) FROM epoch_start "
                "WHERE partition_id = %s ORDER BY leader_epoch",
                [log.start_offset, log.partition_id],
            )
        ]


@contextmanager
def open_reader(url: str) -> Iterator[DatabaseLogs]:
    """Connect to a database that has klamm's tables. Raises StoreUnavailableError, also while reading."""
    address = Address(url)
    try:
        with address.connect("dump") as connection:
            yield DatabaseLogs(connection, address)
    except psycopg.Error as error:
        raise unavailable(address, error) from error


def export_segments(reader: DatabaseLogs, log: StoredLog, folder: Path, clock: Clock) -> Path:
    """Write a log as segment files with their indexes into a folder; its own folder in it.

    Raises FileExistsError if that is there, and OSError.
    """
    own = folder / names.partition_directory(log.topic, log.partition)
    own.mkdir(parents=True)
    config = TopicConfig() if log.segment_bytes is None else TopicConfig(segment_bytes=log.segment_bytes)
    _write_segments(reader, log, own, config.segment_bytes)
    (own / names.PARTITION_METADATA).write_bytes(encode_partition_metadata(log.topic_id))
    (own / names.LEADER_EPOCH_CHECKPOINT).write_bytes(encode_epochs(reader.epochs(log)))
    # Opening a log without a clean mark makes its indexes, as after a crash.
    store = SegmentStore(
        str(folder), cluster_id=reader.cluster_id, node_id=1, clock=clock, flush_on_commit=True
    )
    try:
        store.open(log.topic, log.topic_id, log.partition, leader_epoch=log.leader_epoch, config=config)
    finally:
        store.close()
    return own


def _write_segments(reader: DatabaseLogs, log: StoredLog, own: Path, segment_bytes: int) -> None:
    base_offset, size_bytes = log.start_offset, 0
    segment = _segment(own, base_offset).open("xb")
    try:
        for batch in reader.batches(log):
            _, header = next(iter_headers(batch))
            is_full = size_bytes + len(batch) > segment_bytes
            if size_bytes and (is_full or header.last_offset - base_offset > _MAX_RELATIVE_OFFSET):
                segment.close()
                base_offset, size_bytes = header.base_offset, 0
                segment = _segment(own, base_offset).open("xb")
            segment.write(batch)
            size_bytes += len(batch)
    finally:
        segment.close()


def _segment(own: Path, base_offset: int) -> Path:
    return own / f"{names.file_stem(base_offset)}{names.LOG_SUFFIX}"
