"""A directory of partition logs: its owner, how it was shut down, which logs are open."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from klamm.clock import Clock
from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.protocol.types import ZERO_ID, TopicPartition, id_to_text
from klamm.storage.engines.segments import names
from klamm.storage.engines.segments.checkpoints import (
    MetaProperties,
    OffsetCheckpoint,
    claim_directory,
    decode_partition_metadata,
    encode_partition_metadata,
    write_clean_shutdown,
)
from klamm.storage.engines.segments.files import (
    Files,
    OsFiles,
    remove_if_there,
    remove_tree,
    write_aside,
)
from klamm.storage.engines.segments.handles import HandlePool
from klamm.storage.engines.segments.loading import LoadSettings, load_parts
from klamm.storage.engines.segments.log import SegmentLog
from klamm.storage.log import LogDirStatus, LogError, PartitionLog, Work
from klamm.storage.topic_config import TopicConfig

_logger = logging.getLogger(__name__)

_DAY_MS: Final = 86_400_000


class SegmentStore:
    """A LogStore in one directory, in Kafka's own layout."""

    def __init__(
        self,
        directory: str,
        *,
        cluster_id: str,
        node_id: int,
        clock: Clock,
        flush_on_commit: bool,
        committed_topics: Collection[str] = (),
        files: Files | None = None,
        max_open_files: int | None = None,
        producer_id_expiration_ms: int = _DAY_MS,
    ) -> None:
        """Lock and claim a directory, and check how it was shut down.

        Raises AlreadyLockedError, ForeignDirectoryError, DecodeError or OSError: then the broker must not
        start on it.
        """
        self.directory = os.path.abspath(directory)
        self.files: Files = files if files is not None else OsFiles()
        self._clock = clock
        self._flush_on_commit = flush_on_commit
        self._committed_topics = committed_topics  # flushed on commit, whatever applies to the others
        self._producer_id_expiration_ms = producer_id_expiration_ms
        # The other half of the process's file limit is for connections and flushes.
        self._pool = HandlePool(self.files, max_open_files or max(self.files.handle_limit() // 2, 16))
        self._logs: dict[TopicPartition, SegmentLog] = {}
        self._doomed: list[tuple[int, Callable[[], None]]] = []  # (due at, action)
        self._is_closed = False
        if not self.files.exists(self.directory):
            self.files.make_directory(self.directory)
            self.files.sync_directory(os.path.dirname(self.directory))
        self._lock = self.files.lock(self._path(names.LOCK))
        try:
            self._claim(cluster_id, node_id)
            was_clean = self._take_clean_marker()
            self._remove_deleted_directories()
            self._read_checkpoints()
            self.files.sync_directory(self.directory)
            # Logs that are closed and complete on disk; the marker is written only when all are.
            self._clean = {place for place, _ in self._found()} if was_clean else set()
        except BaseException:
            self.files.close(self._lock)
            raise

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    # -- taking the directory

    def _claim(self, cluster_id: str, node_id: int) -> None:
        seed = f"{cluster_id}/{node_id}/{self.directory}/{self._clock.timestamp_ms()}"
        mine = MetaProperties(cluster_id, node_id, uuid5(NAMESPACE_URL, seed).bytes)
        self.meta = claim_directory(self.files, self._path(names.META_PROPERTIES), mine)

    def _take_clean_marker(self) -> bool:
        """Whether the last shutdown was clean; removes the marker, so that a crash from now on is seen."""
        path = self._path(names.CLEAN_SHUTDOWN_MARKER)
        if not self.files.exists(path):
            return False
        self.files.remove(path)
        return True

    def _remove_deleted_directories(self) -> None:
        for entry in self.files.scan(self.directory):
            if entry.is_directory and entry.name.endswith(names.DELETED_DIRECTORY_SUFFIX):
                remove_tree(self.files, self._path(entry.name))

    def _read_checkpoints(self) -> None:
        def checkpoint(name: str) -> OffsetCheckpoint:
            found = OffsetCheckpoint(self.files, self._path(name))
            found.create()
            return found

        self._recovery_points_file = checkpoint(names.RECOVERY_POINT_CHECKPOINT)
        self._log_starts_file = checkpoint(names.LOG_START_CHECKPOINT)
        self._high_watermarks_file = checkpoint(names.HIGH_WATERMARK_CHECKPOINT)
        checkpoint(names.CLEANER_CHECKPOINT)  # the cleaner's own
        self._recovery_points = self._believed(self._recovery_points_file, names.RECOVERY_POINT_CHECKPOINT)
        self._log_starts = self._believed(self._log_starts_file, names.LOG_START_CHECKPOINT)
        self._high_watermarks = self._believed(self._high_watermarks_file, names.HIGH_WATERMARK_CHECKPOINT)

    def _believed(self, checkpoint: OffsetCheckpoint, name: str) -> dict[TopicPartition, int]:
        """The content of a checkpoint; empty when it is damaged, which costs time but no data."""
        try:
            return checkpoint.read()
        except DecodeError as error:
            _logger.warning("%s: ignoring damaged checkpoint: %s", self._path(name), error)
            return {}

    # -- logs

    def _found(self) -> Iterable[tuple[TopicPartition, str]]:
        for entry in self.files.scan(self.directory):
            parsed = names.parse_partition_directory(entry.name) if entry.is_directory else None
            if parsed is not None:
                yield TopicPartition(*parsed), self._path(entry.name)

    def existing(self) -> Iterable[tuple[str, int, bytes]]:
        """(topic, partition, topic id) of every log found; a zero id where the log has none."""
        return [
            (place.topic, place.partition, self._stored_topic_id(path) or ZERO_ID)
            for place, path in self._found()
        ]

    def _stored_topic_id(self, directory: str) -> bytes | None:
        try:
            return decode_partition_metadata(self.files.read_file(f"{directory}/{names.PARTITION_METADATA}"))
        except FileNotFoundError:
            return None
        except DecodeError as error:
            _logger.warning("%s: reading the topic id failed: %s", directory, error)
            return None

    def open(
        self, topic: str, topic_id: bytes, partition: int, *, leader_epoch: int, config: TopicConfig
    ) -> PartitionLog:
        """Load or create a log and lead it at an epoch, which is recorded before the log is used.

        Raises LogError(kafka_storage_error) when this log cannot be read; others are unaffected.
        """
        place = TopicPartition(topic, partition)
        assert place not in self._logs, f"{place} is open already"
        is_clean = place in self._clean
        self._clean.discard(place)
        try:
            log = self._load(place, topic_id, leader_epoch, config, is_clean=is_clean)
        except OSError as error:
            raise LogError(ErrorCode.kafka_storage_error, f"opening {place} failed: {error}") from error
        self._logs[place] = log
        return log

    def _load(
        self,
        place: TopicPartition,
        topic_id: bytes,
        leader_epoch: int,
        config: TopicConfig,
        *,
        is_clean: bool,
    ) -> SegmentLog:
        directory = self._path(names.partition_directory(*place))
        is_new = not self.files.exists(directory)
        if is_new:
            self.files.make_directory(directory)
        stored_id = self._stored_topic_id(directory)
        if stored_id is not None and stored_id != topic_id:
            raise LogError(
                ErrorCode.inconsistent_topic_id,
                f"{directory} has topic id {id_to_text(stored_id)}, expected {id_to_text(topic_id)}",
            )
        parts = load_parts(
            self.files,
            self._pool,
            directory,
            LoadSettings(
                is_clean=is_clean or is_new,
                recovery_point=self._recovery_points.get(place),
                log_start_offset=self._log_starts.get(place, 0),
                config=config,
                now_ms=self._clock.now_ms(),
            ),
        )
        if leader_epoch < parts.epochs.latest_epoch:
            raise LogError(
                ErrorCode.fenced_leader_epoch,
                f"{directory} was written at leader epoch {parts.epochs.latest_epoch}, "
                f"cannot lead it at older epoch {leader_epoch}",
            )
        if is_new:
            parts.flushing.names_changed(self.directory)
        if stored_id is None:
            metadata_path = f"{directory}/{names.PARTITION_METADATA}"
            write_aside(self.files, metadata_path, encode_partition_metadata(topic_id), sync=False)
            parts.flushing.take_along(metadata_path)
        parts.producers.expire(self._clock.timestamp_ms(), self._producer_id_expiration_ms)
        return SegmentLog(
            parts,
            topic=place.topic,
            topic_id=topic_id,
            partition=place.partition,
            leader_epoch=leader_epoch,
            config=config,
            clock=self._clock,
            keeper=self,
            flush_on_commit=self._flush_on_commit or place.topic in self._committed_topics,
        )

    def delete(self, topic: str, partition: int) -> None:
        """Remove a log at once; its files are deleted after `file.delete.delay.ms`."""
        place = TopicPartition(topic, partition)
        delay_ms = TopicConfig().file_delete_delay_ms
        topic_id = ZERO_ID
        directory = self._path(names.partition_directory(topic, partition))
        if (log := self._logs.pop(place, None)) is not None:
            log.abandon()
            delay_ms, topic_id = log.config.file_delete_delay_ms, log.topic_id
        for offsets in (self._recovery_points, self._log_starts, self._high_watermarks):
            offsets.pop(place, None)
        self._clean.discard(place)
        # A topic id is never used again, so it makes the name unique without a random number.
        doomed = self._path(names.deleted_directory(topic, partition, topic_id))
        try:
            remove_tree(self.files, doomed)
            self.files.rename(directory, doomed)
        except FileNotFoundError:
            return
        except OSError as error:
            raise LogError(ErrorCode.kafka_storage_error, f"deleting {directory} failed: {error}") from error
        self._do_later(delay_ms, lambda: remove_tree(self.files, doomed))

    def set_aside(self, topic: str, partition: int) -> str:
        """Rename a log that belongs to no topic, so that it is kept but never opened; its new path."""
        place = TopicPartition(topic, partition)
        assert place not in self._logs, f"{place} is in use"
        directory = self._path(names.partition_directory(topic, partition))
        try:
            topic_id = self._stored_topic_id(directory) or ZERO_ID
            kept = self._path(names.stray_directory(topic, partition, topic_id))
            self.files.rename(directory, kept)
            self.files.sync_directory(self.directory)
        except OSError as error:
            raise LogError(ErrorCode.kafka_storage_error, f"renaming {directory} failed: {error}") from error
        for offsets in (self._recovery_points, self._log_starts, self._high_watermarks):
            offsets.pop(place, None)
        self._clean.discard(place)
        return kept

    # -- what logs need from their store

    def recovery_point_fell(self, log: SegmentLog) -> None:
        """Lower a log's recovery point, durably, before the log is cut. Raises OSError."""
        place = TopicPartition(log.topic, log.partition)
        if self._recovery_points.get(place, 0) > log.recovery_point:
            self._recovery_points[place] = log.recovery_point
            self._recovery_points_file.start_write(self._recovery_points)()

    def remove_later(self, paths: Sequence[str], delay_ms: int) -> None:
        """Remove files once a delay has passed."""

        def remove() -> None:
            for path in paths:
                remove_if_there(self.files, path)

        self._do_later(delay_ms, remove)

    def _do_later(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._doomed.append((self._clock.now_ms() + delay_ms, action))

    def log_closed(self, log: SegmentLog, *, is_clean: bool) -> None:
        """A log was closed; when clean, all of it is on disk."""
        place = TopicPartition(log.topic, log.partition)
        self._note_offsets(place, log)
        self._logs.pop(place, None)
        if is_clean:
            self._clean.add(place)

    def _note_offsets(self, place: TopicPartition, log: SegmentLog) -> None:
        self._recovery_points[place] = log.recovery_point
        self._high_watermarks[place] = log.high_watermark
        self._note_log_start(place, log)

    def _note_log_start(self, place: TopicPartition, log: SegmentLog) -> None:
        if log.log_start_offset > log.segments[0].base_offset:
            self._log_starts[place] = log.log_start_offset
        else:
            self._log_starts.pop(place, None)  # its files hold it

    # -- checkpoints and the end

    def start_checkpoint(self) -> Work:
        """Work that writes the current recovery points, log starts and high watermarks."""
        for place, log in self._logs.items():
            self._note_offsets(place, log)
        return self._all_of(
            self._recovery_points_file.start_write(self._recovery_points),
            self._high_watermarks_file.start_write(self._high_watermarks),
            self._log_starts_file.start_write(self._log_starts),
        )

    def start_saving_log_starts(self) -> Work:
        """Work that makes the current log starts durable."""
        for place, log in self._logs.items():
            self._note_log_start(place, log)
        return self._all_of(self._log_starts_file.start_write(self._log_starts))

    def _all_of(self, *writes: Callable[[], None]) -> Work:
        def work() -> None:
            try:
                for write in writes:
                    write()
            except OSError as error:
                raise LogError(ErrorCode.kafka_storage_error, f"{self.directory}: {error}") from error

        return work

    def start_housekeeping(self, now_ms: int) -> Work | None:
        """Work that removes files whose delete delay has passed; None when there are none."""
        due = [action for due_at_ms, action in self._doomed if due_at_ms <= now_ms]
        if not due:
            return None
        self._doomed = [(due_at_ms, action) for due_at_ms, action in self._doomed if due_at_ms > now_ms]

        def work() -> None:
            for action in due:
                try:
                    action()
                except OSError as error:
                    _logger.warning("%s: removing deleted files failed: %s", self.directory, error)

        return work

    def status(self) -> Sequence[LogDirStatus]:
        try:
            space = self.files.disk_space(self.directory)
        except OSError:
            return [LogDirStatus(self.directory, -1, -1, is_offline=True)]
        return [LogDirStatus(self.directory, space.total_bytes, space.usable_bytes, is_offline=False)]

    def close(self) -> None:
        """Flush and close every open log, write snapshots, checkpoints and the clean-shutdown marker."""
        if self._is_closed:
            return
        self._is_closed = True
        for place, log in list(self._logs.items()):
            try:
                log.close()
            except LogError as error:
                _logger.error("closing %s failed; it will be recovered at the next start: %s", place, error)
        try:
            self.start_checkpoint()()
            if all(place in self._clean for place, _ in self._found()):
                write_clean_shutdown(self.files, self._path(names.CLEAN_SHUTDOWN_MARKER))
                self.files.sync_directory(self.directory)
            remove_if_there(self.files, self._path(names.LOCK))
        finally:
            self.files.close(self._lock)
