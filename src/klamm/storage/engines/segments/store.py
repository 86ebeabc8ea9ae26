"""A directory of partition logs: its owner, how it was shut down, which logs are open."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Final

from klamm.clock import Clock
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import ZERO_ID, TopicPartition, id_to_text
from klamm.storage.durability import Background, Report, SyncRounds
from klamm.storage.engines.segments import names
from klamm.storage.engines.segments.abandoned import AbandonedLogs
from klamm.storage.engines.segments.checkpoints import (
    MetaProperties,
    claim_directory,
    encode_partition_metadata,
    write_clean_shutdown,
)
from klamm.storage.engines.segments.directory_topic import DirectoryTopic, topic_of
from klamm.storage.engines.segments.files import (
    AlreadyLockedError,
    Files,
    OsFiles,
    remove_if_there,
    remove_tree,
    write_aside,
)
from klamm.storage.engines.segments.handles import HandlePool
from klamm.storage.engines.segments.journal import Journal, JournalSettings
from klamm.storage.engines.segments.journal_reading import JournaledBatch, OtherJournals
from klamm.storage.engines.segments.lanes import RunAll, one_by_one
from klamm.storage.engines.segments.leftovers import has_leftovers
from klamm.storage.engines.segments.loading import LoadSettings, load_parts
from klamm.storage.engines.segments.log import SegmentLog
from klamm.storage.engines.segments.partition_checkpoint import (
    PartitionCheckpoints,
    checkpoint_of,
    must_save_start,
)
from klamm.storage.engines.segments.recoveries import Recoveries
from klamm.storage.engines.segments.removals import DelayedRemovals
from klamm.storage.engines.segments.reserve import DiskReserve
from klamm.storage.engines.segments.rounds import SegmentRounds
from klamm.storage.log import EngineLog, LogDirStatus, LogError, Work
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
        journal: JournalSettings | None = None,
        run_all: RunAll = one_by_one,
        reserve: DiskReserve | None = None,
    ) -> None:
        """Lock and claim a directory, and check how it was shut down.

        `run_all` runs work that mostly waits for the disk.
        The first broker has the directory for itself until it calls `share`. Raises AlreadyLockedError,
        ForeignDirectoryError, DecodeError or OSError: then the broker must not start on it.
        """
        self.directory = os.path.abspath(directory)
        self.reserve = reserve or DiskReserve(files or OsFiles(), self.directory, node_id, 0)
        self.files: Files = self.reserve.files()
        self._clock = clock
        self._node_id = node_id
        self._flush_on_commit = flush_on_commit
        self._committed_topics = committed_topics  # flushed on commit, whatever applies to the others
        self._producer_id_expiration_ms = producer_id_expiration_ms
        # The other half of the process's file limit is for connections and flushes.
        self._pool = HandlePool(self.files, max_open_files or max(self.files.handle_limit() // 2, 16))
        self._logs: dict[TopicPartition, SegmentLog] = {}
        self._removals = DelayedRemovals(self.files, clock)
        self._broken: set[TopicPartition] = set()  # logs that could not be opened
        self._run_all = run_all
        self._recoveries = Recoveries(self.files)
        self._is_closed = False
        if not self.files.exists(self.directory):
            self.files.make_directory(self.directory)
            self.files.sync_directory(os.path.dirname(self.directory))
        self._lock, self.is_alone = self._locked()
        try:
            self._claim(cluster_id, node_id)
            # The marker is for logs without a checkpoint of their own, as Kafka leaves them.
            was_clean = self.is_alone and self._take_clean_marker()
            self._checkpoints = PartitionCheckpoints(self.files, self.directory)
            if self.is_alone:
                self._remove_deleted_directories()
                self._checkpoints.migrate([place for place, _ in self._found()])
            self._open_journal(journal)
            self.files.sync_directory(self.directory)
            self._clean = {place for place, _ in self._found()} if was_clean else set()
        except BaseException:
            self.files.close(self._lock)
            raise

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    # -- taking the directory

    def _locked(self) -> tuple[int, bool]:
        """The lock, and whether no other broker has the directory."""
        path = self._path(names.LOCK)
        try:
            return self.files.lock(path), True
        except AlreadyLockedError:
            return self.files.lock_shared(path), False

    def share(self) -> None:
        """Let other brokers of the cluster use the directory, too."""
        if self.is_alone:
            self.is_alone = False
            self.files.share(self._lock)

    def _claim(self, cluster_id: str, node_id: int) -> None:
        seed = f"{cluster_id}/{node_id}/{self.directory}/{self._clock.timestamp_ms()}"
        mine = MetaProperties(cluster_id, node_id, Random(seed).randbytes(16))
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

    def _open_journal(self, settings: JournalSettings | None) -> None:
        """Read the journal that the last run left; without settings it is read and not written."""
        self._uses_journal = settings is not None
        self.journal = Journal(
            self.files, self.directory, self._node_id, settings or JournalSettings(), self._pool.limit // 4
        )
        self._abandoned = AbandonedLogs(self.journal)
        self._other_journals = OtherJournals(self.files, self.journal.directory, self._node_id)
        for topic, topic_id, partition in self.journal.unreplayed:
            # Its topic id may be lost, and only its topic id: that file need not be durable.
            is_another = self._topic_of(topic, partition).confirmed_id not in (None, topic_id)
            if is_another or not self.holds(topic, partition):
                self.journal.replayed(topic, topic_id, partition)  # deleted in the meantime

    def leaders_changed(self) -> None:
        self._other_journals.forget()

    def _left_in_journals(self, place: TopicPartition, topic_id: bytes) -> list[JournaledBatch]:
        """What journals hold of a log that is not open. Reads files; raises OSError and LogError."""
        partition = place.topic, topic_id, place.partition
        found = [*self._other_journals.of(*partition)]
        # What this broker left in an earlier run; what it has written since, if it led the partition.
        found += (
            self.journal.read_of(*partition) if place in self._abandoned else self.journal.left_of(*partition)
        )
        # Brokers that led it one after the other: the later ones have replayed what was left before.
        found.sort(key=lambda batch: (batch.header.leader_epoch, batch.header.base_offset))
        return found

    # -- logs

    def _found(self) -> Iterable[tuple[TopicPartition, str]]:
        for entry in self.files.scan(self.directory):
            parsed = names.parse_partition_directory(entry.name) if entry.is_directory else None
            if parsed is not None:
                yield TopicPartition(*parsed), self._path(entry.name)

    def existing(self) -> Iterable[tuple[str, int, bytes]]:
        """(topic, partition, topic id) of every log found; a zero id where it is not certain."""
        return [
            (place.topic, place.partition, self._topic_of(*place).confirmed_id or ZERO_ID)
            for place, _ in self._found()
        ]

    def holds(self, topic: str, partition: int) -> bool:
        """Whether the directory has the log of a partition."""
        return self.files.exists(self._path(names.partition_directory(topic, partition)))

    def topic_id_at(self, topic: str, partition: int) -> bytes | None:
        return None if self.is_alone else self._topic_of(topic, partition).likely_id

    def _topic_of(self, topic: str, partition: int) -> DirectoryTopic:
        try:
            left = self._checkpoints.read(TopicPartition(topic, partition))
        except OSError:
            left = None  # opening the log fails, too
        return topic_of(self.files, self._path(names.partition_directory(topic, partition)), left)

    def open(
        self, topic: str, topic_id: bytes, partition: int, *, leader_epoch: int, config: TopicConfig
    ) -> EngineLog:
        """In a shared directory a log that must be recovered raises MustLoadError first."""
        place = TopicPartition(topic, partition)
        assert place not in self._logs, f"{place} is open already"
        self._broken.add(place)  # until it is open
        try:
            log = self._load(place, topic_id, leader_epoch, config)
            # From now on the log is not clean; that it is not is noticed even if this write is lost.
            checkpoint = checkpoint_of(log)  # the log start is what the last one said
            self._checkpoints.start_writing(place, checkpoint, sync=False, has_start=True)()
        except OSError as error:
            raise LogError(ErrorCode.kafka_storage_error, f"opening {place} failed: {error}") from error
        self._clean.discard(place)
        self._broken.discard(place)
        self._logs[place] = log
        return log

    def rounds(self, broker: Background, report: Report) -> SyncRounds:
        return SegmentRounds(broker, report)

    def _load(
        self, place: TopicPartition, topic_id: bytes, leader_epoch: int, config: TopicConfig
    ) -> SegmentLog:
        directory = self._path(names.partition_directory(*place))
        left = self._checkpoints.read(place)
        found = topic_of(self.files, directory, left)
        is_ours = found.belongs_to(
            topic_id,
            is_new=leader_epoch == 0,
            is_journaled=lambda: bool(self._left_in_journals(place, topic_id)),
        )
        if not is_ours:
            self._make_way(place, found, topic_id)
            left = None
        is_new = not self.files.exists(directory)
        if is_new:
            self.files.make_directory(directory)
        is_closed = left is not None and left.is_clean_for(leader_epoch)
        settings = LoadSettings(
            is_clean=is_new or is_closed or place in self._clean,
            expected_end=left.end_offset if left is not None and is_closed else None,
            recovery_point=left.recovery_point if left is not None else None,
            log_start_offset=left.log_start_offset if left is not None else 0,
            config=config,
            now_ms=self._clock.now_ms(),
        )
        journaled = partial(self._left_in_journals, place, topic_id)
        if (repaired := self._recoveries.settings_after(place, settings)) is not None:
            settings = repaired
        elif (place in self._abandoned and not settings.is_clean) or (
            not self.is_alone and (not settings.is_clean or has_leftovers(self.files, directory))
        ):
            raise self._recoveries.needed(place, directory, settings, journaled)
        elif not is_closed:
            settings = replace(settings, journaled=journaled())
        parts = load_parts(self.files, self._pool, directory, settings)
        self.journal.replayed(place.topic, topic_id, place.partition)
        self._abandoned.replayed(place)
        if leader_epoch < parts.epochs.latest_epoch:
            raise LogError(
                ErrorCode.fenced_leader_epoch,
                f"{directory} was written at leader epoch {parts.epochs.latest_epoch}, "
                f"cannot lead it at older epoch {leader_epoch}",
            )
        if is_new:
            parts.flushing.names_changed(self.directory)
        if not is_ours or found.stored_id != topic_id:
            metadata_path = f"{directory}/{names.PARTITION_METADATA}"
            write_aside(self.files, metadata_path, encode_partition_metadata(topic_id), sync=False)
            parts.flushing.include_file(metadata_path)
        self.remove_later(parts.stray_snapshots, config.file_delete_delay_ms)
        parts.producers.expire(self._clock.timestamp_ms(), self._producer_id_expiration_ms)
        log = SegmentLog(
            parts,
            topic=place.topic,
            topic_id=topic_id,
            partition=place.partition,
            leader_epoch=leader_epoch,
            config=config,
            clock=self._clock,
            keeper=self,
            flush_on_commit=self._flush_on_commit or place.topic in self._committed_topics,
            journal=self.journal if self._uses_journal else None,
            is_always_journaled=place.topic in self._committed_topics,
        )
        if left is not None and left.cleaned_to >= 0:
            log.cleaned_to = left.cleaned_to
        return log

    def _make_way(self, place: TopicPartition, found: DirectoryTopic, topic_id: bytes) -> None:
        """Rename the log of a deleted topic whose leader has died, or stands still."""
        message = (
            f"{found.directory} has topic id {id_to_text(found.likely_id or ZERO_ID)}, "
            f"expected {id_to_text(topic_id)}"
        )
        if self.is_alone:
            raise LogError(ErrorCode.inconsistent_topic_id, message)
        # The first flush of the new log makes it durable.
        _logger.warning("%s: renamed to %s", message, self._set_aside(place, is_durable=False))

    def abandon(self, topic: str, partition: int) -> None:
        """Close a log and write nothing: another broker leads it. What was not durable may be lost."""
        place = TopicPartition(topic, partition)
        if (log := self._logs.pop(place, None)) is not None:
            log.abandon()
            self._abandoned.add(place, log)
        self._forget(place)

    def close_log(self, topic: str, partition: int) -> None:
        """Flush and close a log, so that its next leader opens it without recovery.

        Raises LogError, and MustLoadError until everything is synced.
        """
        log = self._logs.get(TopicPartition(topic, partition))
        if log is not None:
            log.go_on_closing()

    def _forget(self, place: TopicPartition) -> None:
        self._checkpoints.forget(place)
        self._clean.discard(place)
        self._broken.discard(place)

    def delete(self, topic: str, partition: int) -> None:
        """Remove a log at once; its files are deleted after `file.delete.delay.ms`."""
        place = TopicPartition(topic, partition)
        delay_ms, topic_id = TopicConfig().file_delete_delay_ms, ZERO_ID
        directory = self._path(names.partition_directory(topic, partition))
        if (log := self._logs.pop(place, None)) is not None:
            log.abandon()
            self.journal.forget(log)
            delay_ms, topic_id = log.config.file_delete_delay_ms, log.topic_id
            if self._topic_of(topic, partition).likely_id not in (None, topic_id):
                # A topic with this name was created again, and its leader has set this log aside.
                directory = self._path(names.stray_directory(topic, partition, topic_id))
        self._forget(place)
        # A topic id is never used again, so it makes the name unique without a random number.
        doomed = self._path(names.deleted_directory(topic, partition, topic_id))
        try:
            remove_tree(self.files, doomed)
            self.files.rename(directory, doomed)
        except FileNotFoundError:
            return
        except OSError as error:
            raise LogError(ErrorCode.kafka_storage_error, f"deleting {directory} failed: {error}") from error
        self._removals.add(delay_ms, lambda: remove_tree(self.files, doomed))

    def set_aside(self, topic: str, partition: int) -> str:
        """Rename a log that belongs to no topic, so that it is kept but never opened; its new path."""
        return self._set_aside(TopicPartition(topic, partition), is_durable=True)

    def _set_aside(self, place: TopicPartition, *, is_durable: bool) -> str:
        assert place not in self._logs, f"{place} is in use"
        directory = self._path(names.partition_directory(*place))
        try:
            topic_id = self._topic_of(*place).likely_id or ZERO_ID
            kept = self._path(names.stray_directory(*place, topic_id))
            self.files.rename(directory, kept)
            if is_durable:
                self.files.sync_directory(self.directory)
        except OSError as error:
            raise LogError(ErrorCode.kafka_storage_error, f"renaming {directory} failed: {error}") from error
        self._forget(place)
        self.journal.replayed(place.topic, topic_id, place.partition)
        return kept

    # -- what logs need from their store

    def recovery_point_fell(self, log: SegmentLog) -> None:
        """Lower a log's recovery point, durably, before the log is cut. Raises OSError."""
        place = TopicPartition(log.topic, log.partition)
        left = self._checkpoints.read(place)
        if left is not None and left.recovery_point > log.recovery_point:
            self._save(place, log, sync=True)()

    def cutting(self, log: SegmentLog, to_offset: int) -> None:
        """A log is about to be cut below what is durable. Raises OSError."""
        self.journal.cut(log, to_offset)

    def journaled(self, log: SegmentLog) -> Sequence[JournaledBatch]:
        """What the journal holds of a log. Raises OSError."""
        return self.journal.read_of(log.topic, log.topic_id, log.partition)

    def remove_later(self, paths: Sequence[str], delay_ms: int) -> None:
        """Remove files once a delay has passed."""
        self._removals.add_files(delay_ms, paths)

    def log_closed(self, log: SegmentLog, *, is_clean: bool) -> Work:
        """A log was closed; when clean, all of it is on disk: work that writes that down."""
        place = TopicPartition(log.topic, log.partition)
        self._logs.pop(place, None)
        if is_clean:
            self.journal.forget(log)
        return self._save(place, log, is_clean=is_clean)

    def _save(
        self, place: TopicPartition, log: SegmentLog, *, is_clean: bool = False, sync: bool = False
    ) -> Work:
        """Work that writes the checkpoint of a log. Raises OSError."""
        return self._checkpoints.start_writing(place, checkpoint_of(log, is_clean=is_clean), sync=sync)

    # -- checkpoints and the end

    def start_checkpoint(self, places: Iterable[TopicPartition] | None = None) -> Work:
        self._forget_replayed()
        changed = [
            self._checkpoints.start_writing(place, checkpoint, sync=False)
            for place in (self._logs if places is None else places)
            if (log := self._logs.get(place)) is not None
            and not self._checkpoints.is_current(place, checkpoint := checkpoint_of(log))
        ]
        return self._all_of(*changed)

    def _forget_replayed(self) -> None:
        """Free this broker's journal of what it left of logs that a later leader has replayed, or deleted."""
        for topic, topic_id, partition in self.journal.unreplayed:
            left = self._checkpoints.read(TopicPartition(topic, partition))
            batches = self.journal.left_of(topic, topic_id, partition)
            if left is not None and left.leader_epoch > max(each.header.leader_epoch for each in batches):
                self.journal.replayed(topic, topic_id, partition)
        last_epoch = self._checkpoints.last_epoch
        self._abandoned.free(lambda place: last_epoch(place) if self.holds(*place) else None)

    def start_saving_log_starts(self) -> Work:
        """Work that makes the current log starts durable."""
        writes = [self._save(place, log) for place, log in self._logs.items() if must_save_start(log)]
        # The directory of a new log may not be durable yet, and its checkpoint is in it.
        return self._all_of(*writes, lambda: self.files.sync_directory(self.directory))

    def _all_of(self, *writes: Callable[[], None]) -> Work:
        def work() -> None:
            try:
                for write in writes:
                    write()
            except OSError as error:
                raise LogError(ErrorCode.kafka_storage_error, f"{self.directory}: {error}") from error

        return work

    def start_housekeeping(self, now_ms: int) -> Work | None:
        """Work that removes files whose delete delay has passed, and looks how full the disk is; if any."""
        return self.reserve.with_a_look(self._removals.start(now_ms, all_of_them=self.reserve.is_full))

    def status(self) -> Sequence[LogDirStatus]:
        return [self.reserve.status()]

    def why_full(self) -> str:
        return self.reserve.why_full()

    def close(self) -> None:
        """Flush and close every open log, write snapshots, checkpoints and the clean-shutdown marker."""
        if self._is_closed:
            return
        self._is_closed = True
        # Logs are closed at the same time: none may close a handle that another one uses.
        self._pool.limit = sys.maxsize
        self._run_all([partial(_close_log, place, log) for place, log in self._logs.items()])
        try:
            self._forget_replayed()
            has_no_journal = self.journal.close()
            if self.is_alone or self.files.unshare(self._lock):
                self._leave(has_no_journal)
        except OSError as error:
            _logger.error("%s: closing failed; the next start recovers it: %s", self.directory, error)
        finally:
            self.files.close(self._lock)

    def _leave(self, has_no_journal: bool) -> None:
        """Write what Kafka, or an older klamm, expects of a directory that no broker uses."""
        places = [place for place, _ in self._found()]
        self._checkpoints.write_for_kafka(places)
        if has_no_journal and all(self._was_closed(place) for place in places):
            write_clean_shutdown(self.files, self._path(names.CLEAN_SHUTDOWN_MARKER))
            self.files.sync_directory(self.directory)
        remove_if_there(self.files, self._path(names.LOCK))

    def _was_closed(self, place: TopicPartition) -> bool:
        left = self._checkpoints.read(place)
        return place not in self._broken and (place in self._clean or bool(left and left.is_clean))


def _close_log(place: TopicPartition, log: SegmentLog) -> None:
    try:
        log.close()
    except LogError as error:
        _logger.error("closing %s failed; it will be recovered at the next start: %s", place, error)
