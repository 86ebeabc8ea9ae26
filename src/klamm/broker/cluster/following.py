"""Follows the cluster store: keeps the image up to date, and serves the partitions that this broker leads.

One path for all changes, whichever broker made them: `catch_up` reads what changed since the image's version,
opens the partitions gained, shows the new image, and closes the partitions lost. A broker that gains many
serves and shows them as they are opened, those of coordinators first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from klamm.broker.cluster.image import ClusterImage
from klamm.broker.cluster.topic_names import COORDINATED_TOPICS
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.config.settings import BROKER_SETTINGS, MIN_IN_SYNC
from klamm.broker.partitions.loading import when_loaded
from klamm.broker.partitions.registry import PartitionRegistry
from klamm.broker.services import RunBlocking
from klamm.config import ConfigError, as_text
from klamm.storage.cluster import (
    ClusterChanges,
    ClusterStore,
    ConfigResourceType,
    PartitionRegistration,
    TopicState,
)
from klamm.storage.topic_config import TopicConfig

DeletionWatcher = Callable[[Sequence[TopicState]], None]
ConfigWatcher = Callable[[BrokerConfig], None]
ChangeWatcher = Callable[[ClusterChanges], None]

# Logs opened at the same time: those that must be recovered wait for the disk, and the others are opened in
# one turn of the event loop.
_OPENED_AT_ONCE: Final = 8
# How often, and how many times, it is checked whether another broker has closed the log of a deleted topic.
_CLOSED_LOOK_S: Final = 0.01
_CLOSED_LOOKS: Final = 200
_log = logging.getLogger(__name__)


class _Gained(NamedTuple):
    """A partition that this broker is to lead."""

    topic: TopicState
    state: PartitionRegistration
    config: TopicConfig


class ClusterFollower:
    """Applies changes of the cluster to this broker, in their order, one set at a time."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        image: ClusterImage,
        cluster: ClusterStore,
        partitions: PartitionRegistry,
        run_blocking: RunBlocking,
    ) -> None:
        self.config = with_dynamic_configs(config, image)  # as it is now
        self._image = image
        self._cluster = cluster
        self._partitions = partitions
        self._run_blocking = run_blocking
        self._turn = asyncio.Lock()
        self.read_count = 0  # reads of the store that have begun
        self._last_applied = 0  # the number of the last one that is applied
        self.is_applying = False  # partitions are being opened, and the image lacks what changed with them
        self.deletion_watchers: list[DeletionWatcher] = []  # called with deleted topics
        self.config_watchers: list[ConfigWatcher] = []  # called with the broker's new configuration
        self.change_watchers: list[ChangeWatcher] = []  # called when the image has applied changes

    async def catch_up(self) -> None:
        """Apply everything that is in the store by now. Raises ClusterStoreError.

        Calls that wait for the same turn share one read of the store.
        """
        begun_before = self.read_count
        async with self._turn:
            if self._last_applied > begun_before:
                return
            self.read_count = number = self.read_count + 1
            changes = await self._run_blocking(self._cluster.changes, self._image.version)
            if changes.version != self._image.version:
                self.is_applying = True
                try:
                    await self._apply(changes)
                finally:
                    self.is_applying = False
            self._last_applied = number

    def drop_all(self) -> None:
        """Close every partition without writing, and read everything anew in the next `catch_up`."""
        for served in self._partitions:
            self._partitions.close(served.topic, served.partition)
        self._image.version = 0
        self._last_applied = 0

    async def start_anew(self) -> None:
        """As `drop_all`, of what was being opened meanwhile, too: its leaders may be others by now."""
        async with self._turn:
            self.drop_all()

    async def _apply(self, changes: ClusterChanges) -> None:
        image = self._image
        known = image.topics if changes.is_complete else changes.topics
        gone = [
            present
            for name in known
            if (present := image.topic(name)) is not None
            and ((now := changes.topics.get(name)) is None or now.topic_id != present.topic_id)
        ]
        self._remove_partitions(gone)
        await self._open_gained(changes)
        image.apply(changes)
        self.is_applying = False
        self._close_lost(changes)
        self._configure(changes)
        for topic in gone:
            _log.info("topic %s deleted", topic.name)
        if gone:
            for watcher in self.deletion_watchers:
                watcher(gone)
        for notice in self.change_watchers:
            notice(changes)

    def _remove_partitions(self, gone: Sequence[TopicState]) -> None:
        """A deleted topic's partitions, before a topic with the same name gets its own."""
        for topic in gone:
            for partition in topic.partitions:
                self._partitions.delete(topic.name, partition.partition)

    async def _open_gained(self, changes: ClusterChanges) -> None:
        gained: list[_Gained] = []
        # Without its coordinator a group stands still, whatever it reads.
        for name in sorted(changes.topics, key=_first_coordinators):
            topic = changes.topics[name]
            states = (
                [] if topic is None else [each for each in topic.partitions if self._is_gained(name, each)]
            )
            if topic is not None and states:
                config = topic_config(self.config, self._image, name, changes)
                gained += [_Gained(topic, each, config) for each in states]
        self._partitions.logs.leaders_changed()
        for first in range(0, len(gained), _OPENED_AT_ONCE):
            at_once = gained[first : first + _OPENED_AT_ONCE]
            opened = [self._open(*each) for each in at_once]
            for failure in await asyncio.gather(*opened, return_exceptions=True):
                if failure is not None:
                    raise failure
            for topic, some in groupby(at_once, key=attrgetter("topic")):
                self._image.show(topic, [each.state for each in some])
        self._partitions.logs.leaders_changed()

    def _is_gained(self, topic: str, state: PartitionRegistration) -> bool:
        if state.leader_id != self._image.broker_id:
            return False
        served = self._partitions.get(topic, state.partition)
        return served is None or served.leader_epoch != state.leader_epoch

    async def _open(self, topic: TopicState, state: PartitionRegistration, config: TopicConfig) -> None:
        if self._partitions.get(topic.name, state.partition) is not None:
            self._partitions.close(topic.name, state.partition)
        if state.leader_epoch == 0:
            await self._namesake_closed(topic, state.partition)
        open_log = partial(
            self._partitions.open,
            topic.name,
            topic.topic_id,
            state.partition,
            leader_epoch=state.leader_epoch,
            config=config,
        )
        await when_loaded(self._run_blocking, open_log)

    async def _namesake_closed(self, topic: TopicState, partition: int) -> None:
        """Wait while the log of a deleted topic has the place of a new one.

        Its leader uses it until it sees the deletion. If that one has died, the store removes the log.
        """
        for _ in range(_CLOSED_LOOKS):
            if self._partitions.logs.topic_id_at(topic.name, partition) in (None, topic.topic_id):
                return
            await asyncio.sleep(_CLOSED_LOOK_S)

    def _close_lost(self, changes: ClusterChanges) -> None:
        for name, topic in changes.topics.items():
            for state in topic.partitions if topic is not None else ():
                served = self._partitions.get(name, state.partition)
                if served is not None and state.leader_id != self._image.broker_id:
                    self._partitions.close(name, state.partition)

    def _configure(self, changes: ClusterChanges) -> None:
        """Apply changed settings: of this broker, and with them the defaults of every topic."""
        changed = {name for kind, name in changes.configs if kind is ConfigResourceType.TOPIC}
        if changes.is_complete or any(
            kind is ConfigResourceType.BROKER and name in ("", str(self._image.broker_id))
            for kind, name in changes.configs
        ):
            self.config = with_dynamic_configs(self.config, self._image)
            changed |= self._image.topics.keys()
            for watcher in self.config_watchers:
                watcher(self.config)
        for name in changed & self._image.topics.keys():
            self._partitions.reconfigure(name, topic_config(self.config, self._image, name))


def _first_coordinators(topic: str) -> bool:
    return topic not in COORDINATED_TOPICS


def with_dynamic_configs(config: BrokerConfig, image: ClusterImage) -> BrokerConfig:
    """A broker's configuration with its dynamic settings and those of the cluster."""
    in_sync = config.layers.static.get(MIN_IN_SYNC, as_text(BROKER_SETTINGS[MIN_IN_SYNC].default))
    return config.changed(
        # A new cluster of Kafka has this one set for all brokers, and keeps it.
        dynamic_default={MIN_IN_SYNC: in_sync, **image.configs(ConfigResourceType.BROKER, "")},
        dynamic=image.configs(ConfigResourceType.BROKER, str(image.broker_id)),
    )


def topic_config(
    config: BrokerConfig, image: ClusterImage, topic: str, changes: ClusterChanges | None = None
) -> TopicConfig:
    """The configuration of a topic, after changes that the image does not have yet.

    Raises ConfigError if its settings contradict the broker's.
    """
    overrides = image.configs(ConfigResourceType.TOPIC, topic)
    if changes is not None:
        overrides = changes.configs.get((ConfigResourceType.TOPIC, topic), overrides)
    try:
        return config.topic_config(overrides)
    except ConfigError as error:
        raise ConfigError(error.name, f"topic {topic}: {error}") from error
