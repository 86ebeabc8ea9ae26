"""Logs that several brokers of one process share: the leader of a partition has its log open.

One store holds all logs. Each broker has its own `BrokerLogs`. Opening a log at a newer leader epoch closes
it for the broker that led it before: that broker's next append is refused with NOT_LEADER_OR_FOLLOWER.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition
from klamm.storage.durability import Background, Report, SyncRounds
from klamm.storage.log import EngineLog, LogDirStatus, LogError, LogStore, Work
from klamm.storage.topic_config import TopicConfig

_logger = logging.getLogger(__name__)


class SharedLogs:
    """The logs of a cluster; `join` makes the LogStore of one broker."""

    def __init__(self, store: LogStore) -> None:
        self.store = store
        self._open: dict[TopicPartition, tuple[BrokerLogs, EngineLog]] = {}
        self._last_epochs: dict[tuple[TopicPartition, bytes], int] = {}  # also of logs that are closed

    def join(self) -> BrokerLogs:
        return BrokerLogs(self)

    def open(
        self,
        owner: BrokerLogs,
        place: TopicPartition,
        topic_id: bytes,
        leader_epoch: int,
        config: TopicConfig,
    ) -> EngineLog:
        """Open a log for a broker; for the broker that led it at an older epoch it is closed."""
        last_epoch = self._last_epochs.get((place, topic_id), -1)
        if last_epoch > leader_epoch or (last_epoch == leader_epoch and self.owner(place) is not None):
            raise LogError(
                ErrorCode.fenced_leader_epoch,
                f"{place} was opened at leader epoch {last_epoch}, cannot be opened at {leader_epoch}",
            )
        if place in self._open:
            self._close(place)
        log = self.store.open(
            place.topic, topic_id, place.partition, leader_epoch=leader_epoch, config=config
        )
        self._open[place] = owner, log
        self._last_epochs[place, topic_id] = leader_epoch
        return log

    def owner(self, place: TopicPartition) -> BrokerLogs | None:
        """The broker that has a log open."""
        present = self._open.get(place)
        return None if present is None else present[0]

    def open_topic_id(self, place: TopicPartition) -> bytes | None:
        present = self._open.get(place)
        return None if present is None else present[1].topic_id

    def let_go(self, owner: BrokerLogs, place: TopicPartition) -> None:
        """Close a log, if this broker is the one that has it open."""
        if self.owner(place) is owner:
            self._close(place)

    def delete(self, owner: BrokerLogs, place: TopicPartition) -> None:
        """Delete a log, unless another broker has it open: it may belong to a new topic of that name."""
        if self.owner(place) in (owner, None):
            self._open.pop(place, None)
            self.store.delete(*place)

    def leave(self, owner: BrokerLogs) -> None:
        """A broker has stopped: close what it has open."""
        for place in [place for place, (present, _) in self._open.items() if present is owner]:
            self._close(place)

    def close(self) -> None:
        """Close the store, after all brokers have stopped."""
        self.store.close()

    def _close(self, place: TopicPartition) -> None:
        _, log = self._open.pop(place)
        try:
            log.close()
        except LogError as error:
            _logger.error("closing %s failed; it is recovered when it is opened: %s", place, error)


class BrokerLogs:
    """The LogStore of one broker among others."""

    def __init__(self, shared: SharedLogs) -> None:
        self._shared = shared

    def open(
        self, topic: str, topic_id: bytes, partition: int, *, leader_epoch: int, config: TopicConfig
    ) -> EngineLog:
        return self._shared.open(self, TopicPartition(topic, partition), topic_id, leader_epoch, config)

    def rounds(self, broker: Background, report: Report) -> SyncRounds:
        return self._shared.store.rounds(broker, report)

    def abandon(self, topic: str, partition: int) -> None:
        self._shared.let_go(self, TopicPartition(topic, partition))

    def leaders_changed(self) -> None:
        """The store has everything that any broker wrote."""

    def close_log(self, topic: str, partition: int) -> None:
        self._shared.let_go(self, TopicPartition(topic, partition))

    def topic_id_at(self, topic: str, partition: int) -> bytes | None:
        return self._shared.open_topic_id(TopicPartition(topic, partition))

    def existing(self) -> Iterable[tuple[str, int, bytes]]:
        """Logs that no other broker has open."""
        return [
            found
            for found in self._shared.store.existing()
            if self._shared.owner(TopicPartition(*found[:2])) in (self, None)
        ]

    def delete(self, topic: str, partition: int) -> None:
        self._shared.delete(self, TopicPartition(topic, partition))

    def set_aside(self, topic: str, partition: int) -> str:
        return self._shared.store.set_aside(topic, partition)

    def status(self) -> Sequence[LogDirStatus]:
        return self._shared.store.status()

    def why_full(self) -> str:
        return self._shared.store.why_full()

    def start_checkpoint(self, places: Iterable[TopicPartition] | None = None) -> Work:
        return self._shared.store.start_checkpoint(places)

    def start_saving_log_starts(self) -> Work:
        return self._shared.store.start_saving_log_starts()

    def start_housekeeping(self, now_ms: int) -> Work | None:
        return self._shared.store.start_housekeeping(now_ms)

    def close(self) -> None:
        self._shared.leave(self)
