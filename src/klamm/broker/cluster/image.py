"""The broker's snapshot of its cluster, which hot paths read without disk access.

It changes in one place, `ClusterImage.apply`, and only after the change is durable in the ClusterStore.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, TypeAlias, assert_never

from klamm.protocol.types import TopicPartition
from klamm.storage.cluster import (
    BrokerRegistration,
    ClusterStore,
    FinalizedFeatures,
    PartitionRegistration,
    ResourceType,
    TopicState,
)


@dataclass(frozen=True, slots=True)
class BrokerRegistered:
    """A broker joined, or changed its address."""

    registration: BrokerRegistration


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """A topic with its overrides."""

    topic: TopicState
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """A topic and its configuration were deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """A topic has more partitions; `added` follow its last one."""

    name: str
    added: Sequence[PartitionRegistration]


@dataclass(frozen=True, slots=True)
class LeadershipTaken:
    """A broker leads these partitions at these epochs."""

    broker_id: int
    epochs: Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class ConfigsReplaced:
    """The overrides of a resource were replaced."""

    resource_type: ResourceType
    name: str
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FeaturesFinalized:
    """The feature levels of the cluster were changed."""

    features: FinalizedFeatures


Change: TypeAlias = (
    BrokerRegistered
    | TopicCreated
    | TopicDeleted
    | PartitionsAdded
    | LeadershipTaken
    | ConfigsReplaced
    | FeaturesFinalized
)

TRANSACTION_VERSION: Final = "transaction.version"
_NOTHING_SET: Final[Mapping[str, str]] = MappingProxyType({})


class ClusterImage:
    """Brokers, topics by name and id, configurations, and the leader and epoch of each partition."""

    def __init__(self, cluster_id: str, broker_id: int) -> None:
        self.cluster_id = cluster_id
        self.broker_id = broker_id  # this broker
        self._brokers: dict[int, BrokerRegistration] = {}
        self._topics: dict[str, TopicState] = {}
        self._names_by_id: dict[bytes, str] = {}
        self._configs: dict[tuple[ResourceType, str], Mapping[str, str]] = {}
        self._features = FinalizedFeatures()

    @classmethod
    def load(cls, store: ClusterStore, broker_id: int) -> ClusterImage:
        """Read the image from the store; blocks."""
        image = cls(store.cluster_id, broker_id)
        configs = store.all_configs()
        for registration in store.brokers():
            image.apply(BrokerRegistered(registration))
        for topic in store.topics().values():
            image.apply(TopicCreated(topic, configs.get((ResourceType.TOPIC, topic.name), {})))
        for (resource_type, name), values in configs.items():
            if resource_type is ResourceType.BROKER:
                image.apply(ConfigsReplaced(resource_type, name, values))
        image.apply(FeaturesFinalized(store.features()))
        return image

    @property
    def brokers(self) -> Mapping[int, BrokerRegistration]:
        return self._brokers

    @property
    def controller_id(self) -> int:
        """The broker for admin requests of clients. Every broker serves them, so it is this one."""
        return self.broker_id

    @property
    def features(self) -> FinalizedFeatures:
        return self._features

    @property
    def transaction_version(self) -> int:
        """0 and 1: a producer keeps its epoch. 2: each transaction raises it (KIP-890)."""
        return self._features.levels.get(TRANSACTION_VERSION, 0)

    @property
    def topics(self) -> Mapping[str, TopicState]:
        return self._topics

    def topic(self, name: str) -> TopicState | None:
        return self._topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> TopicState | None:
        name = self._names_by_id.get(topic_id)
        return None if name is None else self._topics[name]

    def partition(self, topic: str, partition: int) -> PartitionRegistration | None:
        state = self._topics.get(topic)
        return state.partitions[partition] if state and 0 <= partition < len(state.partitions) else None

    def led_here(self) -> Sequence[tuple[TopicState, PartitionRegistration]]:
        """Every partition that this broker leads, with its topic."""
        return [
            (topic, partition)
            for topic in self._topics.values()
            for partition in topic.partitions
            if partition.leader_id == self.broker_id
        ]

    def configs(self, resource_type: ResourceType, name: str) -> Mapping[str, str]:
        """A resource's own overrides, without defaults."""
        return self._configs.get((resource_type, name), _NOTHING_SET)

    def address(self, broker_id: int, listener: str) -> tuple[str, int] | None:
        """The address of a broker for a listener; None when it is unknown or has no such listener."""
        registration = self._brokers.get(broker_id)
        return None if registration is None else registration.listeners.get(listener)

    def apply(self, change: Change) -> None:
        """Apply a durable change. Nothing else changes the image."""
        match change:
            case BrokerRegistered():
                self._brokers[change.registration.broker_id] = change.registration
            case TopicCreated():
                self._topics[change.topic.name] = change.topic
                self._names_by_id[change.topic.topic_id] = change.topic.name
                self._set_configs(ResourceType.TOPIC, change.topic.name, change.configs)
            case TopicDeleted():
                del self._names_by_id[self._topics.pop(change.name).topic_id]
                self._set_configs(ResourceType.TOPIC, change.name, {})
            case PartitionsAdded():
                topic = self._topics[change.name]
                self._topics[change.name] = replace(topic, partitions=(*topic.partitions, *change.added))
            case LeadershipTaken():
                self._take_leadership(change)
            case ConfigsReplaced():
                self._set_configs(change.resource_type, change.name, change.configs)
            case FeaturesFinalized():
                if change.features.epoch >= self._features.epoch:  # two changes may arrive in either order
                    self._features = change.features
            case _:
                assert_never(change)

    def _take_leadership(self, change: LeadershipTaken) -> None:
        for name in {topic for topic, _ in change.epochs}:
            topic = self._topics[name]
            partitions = tuple(
                replace(partition, leader_id=change.broker_id, leader_epoch=change.epochs[key])
                if (key := TopicPartition(name, partition.partition)) in change.epochs
                else partition
                for partition in topic.partitions
            )
            self._topics[name] = replace(topic, partitions=partitions)

    def _set_configs(self, resource_type: ResourceType, name: str, configs: Mapping[str, str]) -> None:
        if configs:
            self._configs[resource_type, name] = dict(configs)
        else:
            self._configs.pop((resource_type, name), None)
