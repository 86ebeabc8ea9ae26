"""Logs that hold nothing but their configuration: what topics and configurations need, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from klamm.protocol.errors import ErrorCode
from klamm.storage.log import LogDirStatus, LogError, LogStore, PartitionLog
from klamm.storage.topic_config import TopicConfig
from support.jar import Jar, JarClient


class StubLog:
    """A log as topics see it."""

    def __init__(
        self, topic: str, topic_id: bytes, partition: int, leader_epoch: int, config: TopicConfig
    ) -> None:
        self.topic, self.topic_id, self.partition = topic, topic_id, partition
        self.leader_epoch = leader_epoch
        self.config = config
        self.size_bytes = 100 + partition
        self.is_dirty = False

    def on_change(self) -> None:
        """Replaced by the partition that takes this log."""

    def sync_is_due(self, now_ms: int) -> bool:
        return False

    def start_sync(self) -> None:
        """Nothing to flush."""

    def close(self) -> None:
        """Nothing to close."""


class StubLogs:
    """A store that remembers who was opened and deleted; `broken` topics cannot be opened."""

    def __init__(self) -> None:
        self.logs: dict[tuple[str, int], StubLog] = {}
        self.deleted: list[tuple[str, int]] = []
        self.broken: set[str] = set()
        self.directories = [LogDirStatus("/data", 1000, 600, False)]

    def open(
        self, topic: str, topic_id: bytes, partition: int, *, leader_epoch: int, config: TopicConfig
    ) -> PartitionLog:
        if topic in self.broken:
            raise LogError(ErrorCode.kafka_storage_error, "the disk is full")
        log = self.logs[topic, partition] = StubLog(topic, topic_id, partition, leader_epoch, config)
        return cast(PartitionLog, log)

    def delete(self, topic: str, partition: int) -> None:
        self.logs.pop((topic, partition), None)
        self.deleted.append((topic, partition))

    def status(self) -> Sequence[LogDirStatus]:
        return self.directories

    def checkpoint(self) -> None:
        """Nothing to write."""

    def housekeeping(self, now_ms: int, timestamp_ms: int) -> None:
        """Nothing to remove."""

    def close(self) -> None:
        """Nothing to close."""


class AdminJar(Jar):
    """A broker in a jar with stub logs and one client."""

    def __init__(
        self, settings: dict[str, str] | None = None, *, stubs: StubLogs | None = None, **others: object
    ) -> None:
        self.stubs = stubs or StubLogs()
        super().__init__(settings, logs=cast(LogStore, self.stubs), **others)  # type: ignore[arg-type]  # Jar's
        self.client: JarClient = self.connect()
