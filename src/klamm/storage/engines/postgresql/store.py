"""Partition logs in PostgreSQL: a LogStore on the database that also has the cluster's metadata."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event, Lock
from typing import Any, Final

import psycopg
from psycopg import Connection

from klamm.clock import Clock
from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.protocol.types import TopicPartition, id_to_text
from klamm.storage.durability import Background, Report, SyncRounds
from klamm.storage.engines.postgresql.appending import prepare_append
from klamm.storage.engines.postgresql.chunks import ChunkCache
from klamm.storage.engines.postgresql.cluster import PostgresCluster
from klamm.storage.engines.postgresql.compaction import CompactionJob
from klamm.storage.engines.postgresql.connection import (
    ConnectionLostError,
    Session,
    StoreUnavailableError,
    one_line,
)
from klamm.storage.engines.postgresql.flushing import DatabaseRounds
from klamm.storage.engines.postgresql.loading import LoadedLog, load_logs
from klamm.storage.engines.postgresql.log import PostgresLog, Snapshot
from klamm.storage.engines.postgresql.retention import delete_orphans, raise_log_start
from klamm.storage.engines.postgresql.rounds import PostgresRounds
from klamm.storage.engines.postgresql.tail import UnflushedBytes
from klamm.storage.log import LogDirStatus, LogError, MustLoadError, Work
from klamm.storage.topic_config import TopicConfig

# Rounds have one connection: with two of them, each takes half of the commits, and the broker spends more on
# rounds than PostgreSQL gains. Large rounds are limited by the volume of the WAL.
READING_CONNECTIONS: Final = 2
TAIL_BYTES: Final = 1024 * 1024  # of each log
ALL_TAILS_BYTES: Final = 64 * 1024 * 1024
PENDING_BYTES: Final = 128 * 1024 * 1024  # of all logs together, appended and not durable
_RETRY_S: Final = 0.2  # while the database cannot be reached
_ORPHANS_INTERVAL_MS: Final = 10_000

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """The `log.cleaner.*` settings that apply."""

    backoff_ms: int
    dedupe_buffer_bytes: int
    max_decompressed_bytes: int


class PostgresLogStore:
    """The logs that one broker leads. See `LogStore`."""

    def __init__(
        self,
        cluster: PostgresCluster,
        *,
        clock: Clock,
        producer_id_expiration_ms: int = 86_400_000,
        reading_connections: int = READING_CONNECTIONS,
        tail_bytes: int = TAIL_BYTES,
        cleaner: CompactionSettings | None = None,
        max_pending_bytes: int = PENDING_BYTES,
    ) -> None:
        """Without `cleaner` no log is compacted."""
        self._cluster = cluster
        self._clock = clock
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._tail_bytes = tail_bytes
        self._is_closing = Event()
        self._is_closed = False
        self._writing = Session(cluster.address, "appends", prepare=prepare_append)
        self._reading = [Session(cluster.address, "reads") for _ in range(reading_connections)]
        self._rounds = PostgresRounds(self._writing, cluster, self._is_closing)
        self._logs: dict[TopicPartition, PostgresLog] = {}
        self._loaded: dict[TopicPartition, LoadedLog | LogError] = {}
        self._loading = Lock()
        self._cleaner = cleaner
        self._compaction_at_ms = 0
        self._compacted: list[tuple[PostgresLog, int]] = []  # bytes freed, to be applied on the event loop
        self._closing: dict[PostgresLog, bool | LogError] = {}  # saved, or why not
        self._orphans_at_ms = 0
        self.cache = ChunkCache()
        self.backlog = UnflushedBytes(max_pending_bytes)

    # -- logs

    def open(
        self, topic: str, topic_id: bytes, partition: int, *, leader_epoch: int, config: TopicConfig
    ) -> PostgresLog:
        place = TopicPartition(topic, partition)
        assert place not in self._logs, f"{place} is open already"
        loaded = self._loaded.pop(place, None)
        if isinstance(loaded, LoadedLog) and loaded.leader_epoch < leader_epoch:
            loaded = None  # loaded with others of its topic, some time ago
        if loaded is None:
            raise MustLoadError(lambda: self._load(place, leader_epoch))
        if isinstance(loaded, LogError):
            raise loaded
        if loaded.topic_id != topic_id:
            raise LogError(
                ErrorCode.inconsistent_topic_id,
                f"{place} has topic id {id_to_text(loaded.topic_id)}, expected {id_to_text(topic_id)}",
            )
        if loaded.leader_epoch > leader_epoch:
            raise LogError(
                ErrorCode.fenced_leader_epoch,
                f"{place} has leader epoch {loaded.leader_epoch}, cannot lead it at epoch {leader_epoch}",
            )
        loaded.producers.expire(self._clock.timestamp_ms(), self._producer_id_expiration_ms)
        self.cache.forget(loaded.partition_id)
        log = self._logs[place] = PostgresLog(
            loaded,
            topic=topic,
            topic_id=topic_id,
            partition=partition,
            leader_epoch=leader_epoch,
            config=config,
            rounds=self._rounds,
            keeper=self,
        )
        return log

    def rounds(self, broker: Background, report: Report) -> SyncRounds:
        return DatabaseRounds(self._rounds, broker, report)

    def _load(self, place: TopicPartition, leader_epoch: int) -> None:
        """Load a log, and those of its topic that are about to be opened too: in a few statements for all."""
        with self._loading:
            present = self._loaded.get(place)
            if not isinstance(present, LoadedLog) or present.leader_epoch < leader_epoch:
                self._load_topic(place, leader_epoch)

    def _load_topic(self, place: TopicPartition, leader_epoch: int) -> None:
        me = self._cluster.me
        broker_id = -2 if me is None else me.broker_id
        try:
            loaded = self._patiently(lambda connection: load_logs(connection, *place, broker_id))
        except LogError as error:
            self._loaded[place] = error
            return
        for partition, log in loaded.items():
            # Nobody else appends at this epoch: it stays valid until it is opened.
            if (other := TopicPartition(place.topic, partition)) not in self._logs:
                self._loaded[other] = log
        found = loaded.get(place.partition)
        if found is None:
            self._loaded[place] = LogError(ErrorCode.kafka_storage_error, f"{place} is not in the database")
        elif found.leader_epoch < leader_epoch:
            self._loaded[place] = LogError(
                ErrorCode.kafka_storage_error,
                f"{place} has leader epoch {found.leader_epoch} in the database, expected {leader_epoch}: "
                "was the database restored to an earlier state?",
            )

    def _patiently(self, look_up: Callable[[Connection[Any]], Any]) -> Any:
        """As `_read`, but waits for a database that cannot be reached: an offline log would stay offline."""
        is_first = True
        while True:
            try:
                with self._reading[0].use() as connection:
                    return look_up(connection)
            except (ConnectionLostError, StoreUnavailableError) as error:
                if is_first:
                    _logger.error("opening logs waits for PostgreSQL: %s", error)
                is_first = False
                if self._is_closing.wait(_RETRY_S):
                    raise LogError(ErrorCode.kafka_storage_error, str(error)) from error
            except (psycopg.Error, DecodeError) as error:
                raise LogError(ErrorCode.kafka_storage_error, one_line(error)) from error

    def _read(self, look_up: Callable[[Connection[Any]], Any]) -> Any:
        """Raises LogError."""
        try:
            try:
                with self._reading[0].use() as connection:
                    return look_up(connection)
            except ConnectionLostError:
                with self._reading[0].use() as connection:
                    return look_up(connection)
        except (ConnectionLostError, StoreUnavailableError, psycopg.Error, DecodeError) as error:
            raise LogError(ErrorCode.kafka_storage_error, one_line(error)) from error

    def abandon(self, topic: str, partition: int) -> None:
        """Close a log and write nothing: another broker leads it. What was not durable is lost."""
        self._loaded.pop(TopicPartition(topic, partition), None)
        if (log := self._logs.get(TopicPartition(topic, partition))) is not None:
            log.abandon()

    def leaders_changed(self) -> None:
        """The database has everything that any broker wrote."""

    def close_log(self, topic: str, partition: int) -> None:
        """Close a flushed log for its next leader, with a snapshot of its producers. Raises MustLoadError."""
        log = self._logs.get(TopicPartition(topic, partition))
        if log is None:
            return
        if (failure := self._closing.pop(log, None)) is not None:
            log.abandon()
            if isinstance(failure, LogError):
                raise failure
            return
        raise MustLoadError(partial(self._save_before_closing, log, log.snapshot(if_due=False)))

    def _save_before_closing(self, log: PostgresLog, snapshot: Snapshot | None) -> None:
        try:
            if log.has_unsaved_start:
                self.save_log_start(log, log.log_start_offset)
            if snapshot is not None:
                self.save_snapshots([snapshot])
        except LogError as error:
            self._closing[log] = error
        else:
            self._closing[log] = True

    def delete(self, topic: str, partition: int) -> None:
        """Close a log: its rows are deleted with its topic, and its chunks bit by bit."""
        self.abandon(topic, partition)
        self._orphans_at_ms = 0

    def topic_id_at(self, topic: str, partition: int) -> bytes | None:
        """A log has no place here but its id; appends to that of a deleted topic are refused."""
        return None

    def existing(self) -> Iterable[tuple[str, int, bytes]]:
        """No log outlives its topic here."""
        return []

    def set_aside(self, topic: str, partition: int) -> str:
        raise AssertionError(f"{topic}-{partition}: no log outlives its topic here")

    # -- what logs need from their store

    def reading_session(self, partition_id: int) -> Session:
        return self._reading[partition_id % len(self._reading)]

    def tail_limit_bytes(self) -> int:
        return min(self._tail_bytes, ALL_TAILS_BYTES // max(1, len(self._logs)))

    def log_closed(self, log: PostgresLog) -> None:
        place = TopicPartition(log.topic, log.partition)
        if self._logs.get(place) is log:
            del self._logs[place]
        self.cache.forget(log.partition_id)

    def save_snapshots(self, snapshots: Sequence[Snapshot]) -> None:
        for snapshot in snapshots:
            self._write(partial(_save_snapshot, snapshot))
            snapshot.log.snapshot_saved(snapshot.end_offset)

    def _write(self, change: Callable[[Connection[Any]], None]) -> None:
        """Raises LogError."""
        try:
            with self._reading[0].use() as connection:
                change(connection)
        except (ConnectionLostError, StoreUnavailableError, psycopg.Error) as error:
            raise LogError(ErrorCode.kafka_storage_error, one_line(error)) from error

    # -- checkpoints and the end

    def start_checkpoint(self, places: Iterable[TopicPartition] | None = None) -> Work:
        """Work that saves log starts, and the producers of logs with many appends since the last time."""
        named = self._logs if places is None else places
        chosen = [log for place in named if (log := self._logs.get(place)) is not None]
        save_starts = self._start_saving(chosen)
        snapshots = [snapshot for log in chosen if (snapshot := log.snapshot(if_due=True)) is not None]

        def save() -> None:
            save_starts()
            self.save_snapshots(snapshots)

        return save

    def start_saving_log_starts(self) -> Work:
        """Work that makes the current log starts durable."""
        return self._start_saving(self._logs.values())

    def _start_saving(self, logs: Iterable[PostgresLog]) -> Work:
        unsaved = [(log, log.log_start_offset) for log in logs if log.has_unsaved_start]

        def save() -> None:
            for log, start_offset in unsaved:
                self.save_log_start(log, start_offset)

        return save

    def save_log_start(self, log: PostgresLog, start_offset: int) -> None:
        """Blocks. Raises LogError."""
        self._write(
            partial(
                raise_log_start,
                partition_id=log.partition_id,
                leader_epoch=log.leader_epoch,
                start_offset=start_offset,
            )
        )
        log.log_start_saved(start_offset)

    def start_housekeeping(self, now_ms: int) -> Work | None:
        """Work that compacts a log that needs it, and deletes some chunks of deleted topics, now and then."""
        while self._compacted:
            log, freed_bytes = self._compacted.pop()
            log.compacted(freed_bytes)
        compaction = self._next_compaction(now_ms)
        if now_ms < self._orphans_at_ms:
            return compaction

        def work() -> None:
            if compaction is not None:
                compaction()
            try:
                has_more = self._read(delete_orphans)
            except LogError as error:
                _logger.warning("deleting the chunks of deleted topics failed: %s", error)
                has_more = False
            self._orphans_at_ms = now_ms if has_more else now_ms + _ORPHANS_INTERVAL_MS

        self._orphans_at_ms = now_ms + _ORPHANS_INTERVAL_MS
        return work

    def _next_compaction(self, now_ms: int) -> Work | None:
        if self._cleaner is None or now_ms < self._compaction_at_ms:
            return None
        self._compaction_at_ms = now_ms + self._cleaner.backoff_ms
        timestamp_ms = self._clock.timestamp_ms()
        for log in self._logs.values():
            job = log.compaction(
                timestamp_ms, self._cleaner.dedupe_buffer_bytes, self._cleaner.max_decompressed_bytes
            )
            if job is not None:
                return partial(self._compact, log, job)
        return None

    def _compact(self, log: PostgresLog, job: CompactionJob) -> None:
        try:
            freed_bytes = self._read(job.run)
        except (LogError, OverflowError) as error:
            _logger.warning("%s: compaction failed: %s", log.name, error)
        else:
            self._compacted.append((log, freed_bytes))
            self._compaction_at_ms = 0  # others may need it too

    def status(self) -> Sequence[LogDirStatus]:
        return [LogDirStatus(self._cluster.address.text, -1, -1, is_offline=False)]

    def why_full(self) -> str:
        return ""  # the database refuses what it has no room for

    def give_up(self) -> None:
        """Wait no longer for a database that cannot be reached: appends that are not durable by now fail."""
        self._is_closing.set()

    def close(self) -> None:
        """Flush and close every open log, and save their producers."""
        if self._is_closed:
            return
        self._is_closed = True
        self._is_closing.set()
        is_reachable = True
        for place, log in list(self._logs.items()):
            if not is_reachable:
                log.abandon()  # each of them would wait until a connection fails
                continue
            try:
                log.close()
            except LogError as error:
                _logger.error(
                    "closing %s failed; its producers are read from the log next time: %s", place, error
                )
                is_reachable = not isinstance(error.__cause__, ConnectionLostError | StoreUnavailableError)
        for session in (self._writing, *self._reading):
            session.close()


def _save_snapshot(snapshot: Snapshot, connection: Connection[Any]) -> None:
    """Save it, unless another epoch leads the log or a later one is there."""
    with connection.transaction():
        saved = connection.execute(
            "INSERT INTO producer_snapshot SELECT partition_id, %(end)s, %(state)s FROM log "
            "WHERE partition_id = %(id)s AND leader_epoch = %(epoch)s "
            "ON CONFLICT (partition_id) DO UPDATE "
            "SET end_offset = excluded.end_offset, state = excluded.state "
            "WHERE producer_snapshot.end_offset <= excluded.end_offset",
            {
                "id": snapshot.log.partition_id,
                "epoch": snapshot.log.leader_epoch,
                "end": snapshot.end_offset,
                "state": snapshot.state,
            },
        ).rowcount
        if saved:
            for entry in snapshot.aborted:
                connection.execute(
                    "INSERT INTO aborted (partition_id, producer_id, first_offset, last_offset, "
                    "last_stable_offset) VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                    [snapshot.log.partition_id, *entry],
                )
