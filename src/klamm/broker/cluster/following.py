"""Follows the cluster store: keeps the image up to date, and serves the partitions that this broker leads.

One path for all changes, whichever broker made them: `catch_up` reads what changed since the image's version,
opens the partitions gained, shows the new image, and closes the partitions lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from klamm.broker.cluster.image import ClusterImage
from klamm.broker.config.broker_config import BrokerConfig
from klamm.broker.partitions.loading import when_loaded
from klamm.broker.partitions.registry import PartitionRegistry
from klamm.broker.services import RunBlocking
from klamm.config import ConfigError
from klamm.storage.cluster import ClusterChanges, ClusterStore, ConfigResourceType, TopicState
from klamm.storage.topic_config import TopicConfig

DeletionWatcher = Callable[[Sequence[TopicState]], None]
ConfigWatcher = Callable[[BrokerConfig], None]
ChangeWatcher = Callable[[ClusterChanges], None]

_OPENED_PER_TURN: Final = 8  # logs opened in one turn of the event loop
_log = logging.getLogger(__name__)


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
        self.deletion_watchers: list[DeletionWatcher] = []  # called with deleted topics
        self.config_watchers: list[ConfigWatcher] = []  # called with the broker's new configuration
        self.change_watchers: list[ChangeWatcher] = []  # called when the image has applied changes

    async def catch_up(self) -> None:
        """Apply everything that is in the store by now. Raises ClusterStoreError."""
        async with self._turn:
            changes = await self._run_blocking(self._cluster.changes, self._image.version)
            if changes.version != self._image.version:
                await self._apply(changes)

    def drop_all(self) -> None:
        """Close every partition without writing, and read everything anew in the next `catch_up`."""
        for served in self._partitions:
            self._partitions.close(served.topic, served.partition)
        self._image.version = 0

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
        opened = 0
        self._partitions.logs.leaders_changed()
        for name, topic in changes.topics.items():
            if topic is None:
                continue
            config = topic_config(self.config, self._image, name, changes)
            for state in topic.partitions:
                if state.leader_id != self._image.broker_id:
                    continue
                served = self._partitions.get(name, state.partition)
                if served is not None and served.leader_epoch == state.leader_epoch:
                    continue
                if served is not None:
                    self._partitions.close(name, state.partition)
                await when_loaded(
                    self._run_blocking,
                    partial(
                        self._partitions.open,
                        name,
                        topic.topic_id,
                        state.partition,
                        leader_epoch=state.leader_epoch,
                        config=config,
                    ),
                )
                opened += 1
                if opened % _OPENED_PER_TURN == 0:
                    await asyncio.sleep(0)
        self._partitions.logs.leaders_changed()

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


def with_dynamic_configs(config: BrokerConfig, image: ClusterImage) -> BrokerConfig:
    """A broker's configuration with its dynamic settings and those of the cluster."""
    return config.changed(
        dynamic_default=image.configs(ConfigResourceType.BROKER, ""),
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
