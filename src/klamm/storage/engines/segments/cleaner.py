"""Compaction: choosing the log to clean next, and installing the result.

A pass has three steps. `Cleaner.plan` picks the dirtiest log (owner's thread, quick), `CleaningJob.run` reads
and writes (any thread, long), `Cleaner.finish` installs the cleaned segments (owner's thread, quick, when
their names are durable).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from klamm.clock import Clock
from klamm.config import DOUBLE_MAX
from klamm.protocol.types import TopicPartition
from klamm.storage.cleaning_batches import CleaningRules, live_producers
from klamm.storage.cleaning_map import KeyOffsetMap
from klamm.storage.engines.segments.cleaning_job import CleaningCancelledError, CleaningJob, SegmentFiles
from klamm.storage.engines.segments.cleaning_plan import Dirtiness, measure
from klamm.storage.engines.segments.files import Files
from klamm.storage.engines.segments.log import SegmentLog
from klamm.storage.log import LogError, MustLoadError, PartitionLog

_logger = logging.getLogger(__name__)

_BREATH_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """The `log.cleaner.*` settings of a pass."""

    dedupe_buffer_bytes: int = 134_217_728
    load_factor: float = 0.9
    max_bytes_per_second: float = DOUBLE_MAX
    max_decompressed_bytes: int = 67_108_864


@dataclass(frozen=True, slots=True)
class CleaningReport:
    """The result of a pass, for the log and the metrics."""

    topic_partition: TopicPartition
    first_dirty_offset: int
    end_offset: int
    dirty_ratio: float
    bytes_read: int
    bytes_written: int
    keys: int
    reason: str = ""  # why nothing was replaced
    is_log_lost: bool = False  # it takes nothing more until it is opened again


class Throttle:
    """Limits reading and writing to a rate, and yields to other threads."""

    def __init__(self, bytes_per_second: float, clock: Clock, sleep: Callable[[float], None]) -> None:
        self._bytes_per_second = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._since_ms = clock.now_ms()
        self._bytes = 0
        self._unheard_bytes = 0

    def __call__(self, size_bytes: int) -> None:
        self._unheard_bytes += size_bytes
        if self._unheard_bytes < _BREATH_BYTES:
            return
        self._bytes += self._unheard_bytes
        self._unheard_bytes = 0
        due_ms = self._bytes / self._bytes_per_second * 1000
        ahead_ms = due_ms - (self._clock.now_ms() - self._since_ms)
        # Even a sleep of zero seconds yields to another thread.
        self._sleep(ahead_ms / 1000 if ahead_ms >= 1 else 0)


class Cleaner:
    """Compacts the logs of a store, the dirtiest first; one pass for a log at a time."""

    def __init__(
        self,
        files: Files,
        logs: Callable[[], Iterable[PartitionLog]],
        *,
        clock: Clock,
        sleep: Callable[[float], None],
        settings: CleanerSettings | None = None,
    ) -> None:
        """`logs` returns every log that is served, whatever its policy; other engines' are left alone."""
        self.settings = settings or CleanerSettings()
        self._files = files
        self._logs = logs
        self._clock = clock
        self._sleep = sleep
        self._running: dict[TopicPartition, tuple[CleaningJob, SegmentLog]] = {}
        self._uncleanable: dict[TopicPartition, tuple[bytes, str]] = {}
        self._due: list[SegmentLog] = []  # when all were last measured, the dirtiest last

    @property
    def uncleanable(self) -> Mapping[TopicPartition, str]:
        """Logs that are not compacted until a restart, and why."""
        return {partition: reason for partition, (_, reason) in self._uncleanable.items()}

    @property
    def running(self) -> tuple[CleaningJob, ...]:
        return tuple(job for job, _ in self._running.values())

    def plan(self) -> CleaningJob | None:
        """The next pass: over the dirtiest log that is due; None when all are clean enough.

        All logs are measured when those that were due the last time are cleaned, not for each pass: with many
        logs, measuring them costs more than a pass.
        """
        timestamp_ms = self._clock.timestamp_ms()
        while self._due or self._find_due(timestamp_ms):
            log = self._due.pop()
            dirtiness = self._measured(log, timestamp_ms)
            if dirtiness is None or not dirtiness.is_due(log.config) or not self._is_cleanable(log):
                continue
            try:
                return self._begin(log, dirtiness, timestamp_ms)
            except (LogError, OSError) as error:
                self._give_up(log, f"reading it failed: {error}")
                return None
        return None

    def has_due(self) -> bool:
        """Whether there is a log that is due."""
        return bool(self._due) or self._find_due(self._clock.timestamp_ms())

    def _find_due(self, timestamp_ms: int) -> bool:
        """Find the logs that are due, the dirtiest last; whether there are any."""
        ratios: list[tuple[float, SegmentLog]] = []
        for log in self._cleanable():
            dirtiness = self._measured(log, timestamp_ms)
            if dirtiness is not None and dirtiness.is_due(log.config):
                ratios.append((dirtiness.ratio, log))
        ratios.reverse()  # of equally dirty ones the first goes first
        ratios.sort(key=lambda each: each[0])
        self._due = [log for _, log in ratios]
        return bool(ratios)

    def _measured(self, log: SegmentLog, timestamp_ms: int) -> Dirtiness | None:
        try:
            return measure(log, log.cleaned_to, timestamp_ms)
        except (LogError, OSError) as error:
            self._give_up(log, f"measuring it failed: {error}")
            return None

    def dirtiest_ratio(self) -> float:
        """The dirty ratio of the dirtiest log, whether it is due or not."""
        timestamp_ms = self._clock.timestamp_ms()
        ratios = [measure(log, log.cleaned_to, timestamp_ms).ratio for log in self._cleanable()]
        return max(ratios, default=0.0)

    def finish(self, job: CleaningJob) -> CleaningReport:
        """Install the segments of a job that has run. Raises MustLoadError until their names are durable."""
        _, log = self._running[job.topic_partition]
        reason = self._replace(job, log)
        del self._running[job.topic_partition]
        if not reason:
            log.cleaned(job.end_offset)
        report = CleaningReport(
            topic_partition=job.topic_partition,
            first_dirty_offset=job.first_dirty_offset,
            end_offset=job.end_offset,
            dirty_ratio=job.dirty_ratio,
            bytes_read=job.counts.bytes_read,
            bytes_written=job.counts.bytes_written,
            keys=job.counts.keys,
            reason=reason,
            is_log_lost=not log.is_writable,
        )
        _logger.info(
            "%s: compacted offsets %d to %d (%.0f%% dirty), %d bytes to %d%s",
            job.topic_partition, job.first_dirty_offset, job.end_offset, 100 * job.dirty_ratio,
            sum(segment.size_bytes for segment in job.segments), job.counts.bytes_written,
            f"; result discarded: {reason}" if reason else "",
        )  # fmt: skip
        return report

    def _cleanable(self) -> Iterable[SegmentLog]:
        return (log for log in self._logs() if isinstance(log, SegmentLog) and self._is_cleanable(log))

    def _is_cleanable(self, log: SegmentLog) -> bool:
        if not log.config.is_compacted or not log.is_writable:
            return False
        partition = TopicPartition(log.topic, log.partition)
        topic_id, _ = self._uncleanable.get(partition, (b"", ""))
        return partition not in self._running and topic_id != log.topic_id

    def _begin(self, log: SegmentLog, dirtiness: Dirtiness, timestamp_ms: int) -> CleaningJob:
        bound = dirtiness.bound_offset
        following = [segment.base_offset for segment in log.segments[1:]]
        segments = [
            SegmentFiles.of(segment, next_offset)
            for segment, next_offset in zip(log.segments, following, strict=False)  # not the active one
            if next_offset <= bound
        ]
        aborted = [
            entry
            for segment in log.segments
            for entry in segment.loaded_txn_index().entries()
            if entry.first_offset < bound
        ]
        settings = self.settings
        job = CleaningJob(
            topic_partition=TopicPartition(log.topic, log.partition),
            directory=log.directory,
            config=log.config,
            rules=CleaningRules(
                timestamp_ms=timestamp_ms,
                delete_retention_ms=log.config.delete_retention_ms,
                live_producers=live_producers(log.producer_state, log.high_watermark),
                max_decompressed_bytes=settings.max_decompressed_bytes,
            ),
            first_dirty_offset=dirtiness.first_dirty_offset,
            segments=segments,
            aborted=aborted,
            mapped=KeyOffsetMap(settings.dedupe_buffer_bytes, settings.load_factor),
            files=self._files,
            throttle=Throttle(settings.max_bytes_per_second, self._clock, self._sleep),
            dirty_ratio=dirtiness.ratio,
        )
        self._running[job.topic_partition] = job, log
        return job

    def _replace(self, job: CleaningJob, log: SegmentLog) -> str:
        """Install the cleaned segments; the reason when that is not possible."""
        present = set(map(id, log.segments)) if any(log is each for each in self._logs()) else set()
        if not all(id(segment.segment) in present for segment in job.segments):
            job.discard()
            return "its segments were deleted in the meantime"
        if job.error is not None:
            if not isinstance(job.error, CleaningCancelledError):
                self._give_up(log, str(job.error))
            return str(job.error) or "it was cancelled"
        if job.end_offset <= job.first_dirty_offset:
            self._give_up(log, "log.cleaner.dedupe.buffer.size holds not a single key: raise it")
            return "no key fits"
        try:
            if job.groups and not job.are_names_durable():
                raise MustLoadError(job.sync_names)
            for group in job.groups:
                log.replace_segments(group.old, (group.new,))
        except OSError as error:
            log.lose(error)
            self._give_up(log, str(error))
            return str(error)
        return ""

    def _give_up(self, log: SegmentLog, reason: str) -> None:
        partition = TopicPartition(log.topic, log.partition)
        self._uncleanable[partition] = log.topic_id, reason
        _logger.error("%s: compaction is disabled until a restart: %s", partition, reason)
