"""The partitions that this broker leads: their logs, and the requests that wait for them to change."""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from klamm.broker.metrics.counters import TopicTallies
from klamm.config import LONG_MAX
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.types import TopicPartition
from klamm.storage.durability import DurableLog
from klamm.storage.log import (
    EngineLog,
    LogError,
    LogLookups,
    LogRetention,
    LogStore,
    LogTransactions,
    PartitionLog,
)
from klamm.storage.topic_config import TopicConfig

Watcher = Callable[[], None]

_log = logging.getLogger(__name__)


class HeldAppend(Protocol):
    """A request that waits until its append is durable."""

    last_offset: int
    flush_failures: int  # of the partition at the append; one more means that it was truncated

    def release(self, error_code: ErrorCode) -> None:
        """The append is durable, or failed with an error."""
        ...


class Partition:
    """One partition at one leadership.

    `error_code` is set while it cannot serve: kafka_storage_error when its log is offline,
    unknown_topic_or_partition when it was deleted, not_leader_or_follower when another broker leads it now.
    """

    __slots__ = (
        "__weakref__",
        "_log",
        "_registry",
        "_told",
        "counters",
        "error_code",
        "flush_failures",
        "held",
        "is_flushed",
        "is_sealed",
        "leader_epoch",
        "name",
        "partition",
        "topic",
        "topic_id",
        "watchers",
    )

    def __init__(
        self,
        registry: PartitionRegistry,
        name: TopicPartition,
        topic_id: bytes,
        leader_epoch: int,
        log: EngineLog | None,
    ) -> None:
        self.name = name
        self.topic, self.partition = name
        self.topic_id = topic_id
        self.leader_epoch = leader_epoch
        self.error_code = NO_ERROR if log is not None else ErrorCode.kafka_storage_error
        self.flush_failures = 0
        self.is_flushed = False  # the flusher finds it by its log
        self.is_sealed = False  # it moves to another broker, after its last flush
        self.counters = registry.tallies.of(self.topic)
        self.watchers: dict[Watcher, None] = {}
        self.held: deque[HeldAppend] = deque()  # wait for the high watermark, oldest first
        self._registry = registry
        self._log = log
        self._told = ""
        if log is not None:
            log.on_change = self.changed
            log.flush_soon = self._flush_soon

    @property
    def log(self) -> PartitionLog:
        """Its log; LogError with its error code when the partition does not serve."""
        if self.error_code is not NO_ERROR or self._log is None:  # without a call: every append asks
            return self._available()
        return self._log

    @property
    def durable(self) -> DurableLog:
        """The same log, to be made durable."""
        return self._available()

    @property
    def transactions(self) -> LogTransactions:
        """The same log: its producers and their transactions."""
        return self._available()

    @property
    def lookups(self) -> LogLookups:
        """The same log: offsets by time and by leader epoch."""
        return self._available()

    @property
    def retention(self) -> LogRetention:
        """The same log: how much it keeps."""
        return self._available()

    def _available(self) -> EngineLog:
        if self.error_code is not NO_ERROR or self._log is None:
            raise LogError(self.error_code, f"{self.name} is not available on this broker")
        return self._log

    def _serve_no_more(self, error_code: ErrorCode) -> None:
        self.error_code = error_code
        self.changed()

    def note(self, error: LogError) -> None:
        """Log a storage error of this partition; the same message only once in a row."""
        if error.error_code is ErrorCode.kafka_storage_error and str(error) != self._told:
            self._told = str(error)
            _log.error("%s: %s", self.name, error)

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` soon after each change, until it is unwatched. It must not raise."""
        self.watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        self.watchers.pop(watcher, None)

    def changed(self) -> None:
        """High watermark, stable offset, log start, leadership or existence changed: wake the watchers."""
        if self.watchers or self.held:
            self._registry.wake_soon(self)

    def release(self) -> None:
        """Complete the held appends that are durable or lost."""
        held, error_code, log = self.held, self.error_code, self._log
        if (error_code is not NO_ERROR and not self.is_sealed) or log is None:
            while held:
                held.popleft().release(error_code)
            return
        while held:
            first = held[0]
            if first.flush_failures != self.flush_failures:
                held.popleft().release(ErrorCode.kafka_storage_error)
            elif first.last_offset < log.high_watermark:
                held.popleft().release(NO_ERROR)
            else:
                return

    def flush_failed(self) -> None:
        """Records that were not durable are truncated; requests that wait for them fail."""
        self.flush_failures += 1
        self.changed()

    def _flush_soon(self) -> None:
        self._registry.flush_soon(self)

    def seal(self) -> DurableLog | None:
        """Serve no new requests: another broker will lead it. The log, if it can be read, to be flushed.

        Appends that wait for their flush are completed by it; other requests that wait fail.
        """
        log = self._log if self.error_code is NO_ERROR else None
        self.is_sealed = log is not None
        self._serve_no_more(ErrorCode.not_leader_or_follower)
        return log

    def fail(self, error_code: ErrorCode) -> None:
        """Stop serving; requests that wait fail with this error."""
        self.is_sealed = False
        self._serve_no_more(error_code)


class PartitionRegistry:
    """Opens, finds and removes partitions. All of it happens on the event loop."""

    def __init__(self, logs: LogStore, loop: AbstractEventLoop) -> None:
        self.logs = logs
        self._loop = loop
        self._topics: dict[str, dict[int, Partition]] = {}
        self.opening_watchers: list[Callable[[Partition], None]] = []  # called with each opened partition
        self._changed: dict[Partition, None] = {}
        self.flush_soon: Callable[[Partition], None] = lambda _: None  # a log must be repaired
        self.flushed_by_time: dict[Partition, None] = {}  # those with a flush.ms
        self.tallies = TopicTallies()

    def __iter__(self) -> Iterator[Partition]:
        return iter([partition for topic in self._topics.values() for partition in topic.values()])

    def get(self, topic: str, partition: int) -> Partition | None:
        partitions = self._topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def of_topic(self, topic: str) -> Sequence[Partition]:
        return list(self._topics.get(topic, {}).values())

    def open(
        self, topic: str, topic_id: bytes, partition: int, *, leader_epoch: int, config: TopicConfig
    ) -> Partition:
        """Serve a partition at a leader epoch. If its log cannot be read, only this partition is offline.

        Raises MustLoadError, and has done nothing, if the log has to be loaded off the event loop.
        """
        name = TopicPartition(topic, partition)
        log: EngineLog | None = None
        try:
            log = self.logs.open(topic, topic_id, partition, leader_epoch=leader_epoch, config=config)
        except (LogError, OSError) as error:
            _log.error("opening %s failed, the partition is offline: %s", name, error)
        opened = Partition(self, name, topic_id, leader_epoch, log)
        self._topics.setdefault(topic, {})[partition] = opened
        self._note_flush_ms(opened, config)
        for watcher in self.opening_watchers:
            watcher(opened)
        return opened

    def reconfigure(self, topic: str, config: TopicConfig) -> None:
        """Apply a topic's new configuration, from the next append, read or cleaning on."""
        for partition in self.of_topic(topic):
            if partition.error_code is NO_ERROR:
                partition.log.config = config
                self._note_flush_ms(partition, config)

    def _note_flush_ms(self, partition: Partition, config: TopicConfig) -> None:
        if config.flush_ms < LONG_MAX:
            self.flushed_by_time[partition] = None
        else:
            self.flushed_by_time.pop(partition, None)

    def close(self, topic: str, partition: int) -> None:
        """Stop serving a partition that another broker leads now; requests that wait for it fail."""
        gone = self._remove(topic, partition)
        if gone is not None:
            gone.fail(ErrorCode.not_leader_or_follower)
            self.logs.abandon(topic, partition)

    def delete(self, topic: str, partition: int) -> None:
        """Remove the partition and its log, if this broker leads it; requests that wait for it fail."""
        gone = self._remove(topic, partition)
        if gone is None:
            return
        gone.fail(ErrorCode.unknown_topic_or_partition)
        try:
            self.logs.delete(topic, partition)
        except (LogError, OSError) as error:
            # The topic is deleted nevertheless; the next start finds the files and moves them aside.
            _log.error("deleting the log of %s-%d failed: %s", topic, partition, error)

    def _remove(self, topic: str, partition: int) -> Partition | None:
        partitions = self._topics.get(topic, {})
        gone = partitions.pop(partition, None)
        if gone is not None:
            self.flushed_by_time.pop(gone, None)
        if not partitions:
            self._topics.pop(topic, None)
            self.tallies.forget(topic)
        return gone

    def wake_soon(self, partition: Partition) -> None:
        """Wake the watchers once per turn of the event loop, however often a partition changed."""
        if not self._changed:
            self._loop.call_soon(self.wake)
        self._changed[partition] = None

    def wake(self) -> None:
        """Call the watchers of changed partitions now."""
        changed, self._changed = self._changed, {}
        due: dict[Watcher, None] = {}
        for partition in changed:
            if partition.watchers:
                due |= partition.watchers
            if partition.held:
                try:
                    partition.release()
                except Exception:
                    _log.exception("completing held produce requests of %s failed", partition.name)
        for watcher in due:
            try:
                watcher()
            except Exception:
                # One failing watcher must not keep the others from being called.
                _log.exception(
                    "a handler of changes to %s failed", ", ".join([str(each.name) for each in changed])
                )
