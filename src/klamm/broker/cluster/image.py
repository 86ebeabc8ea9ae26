"""The broker's snapshot of its cluster, which hot paths read without disk access.

It changes with what the ClusterStore says has changed, and in two places: `ClusterImage.apply` takes a set
of changes over, and `ClusterImage.show` those leaders of it that are ready before the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from klamm.storage.cluster import (
    BrokerRegistration,
    BrokerState,
    ClusterChanges,
    ConfigResourceType,
    FinalizedFeatures,
    PartitionRegistration,
    TopicState,
)

TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
_NOTHING_SET: Final[Mapping[str, str]] = MappingProxyType({})


class ClusterImage:
    """Brokers, topics by name and id, configurations, and the leader and epoch of each partition."""

    def __init__(self, cluster_id: str, broker_id: int) -> None:
        self.cluster_id = cluster_id
        self.broker_id = broker_id  # this broker
        self.version = 0  # of the store
        self._brokers: dict[int, BrokerRegistration] = {}
        self._topics: dict[str, TopicState] = {}
        self._names_by_id: dict[bytes, str] = {}
        self._configs: dict[tuple[ConfigResourceType, str], Mapping[str, str]] = {}
        self._features = FinalizedFeatures()
        # 0 and 1: a producer keeps its epoch. 2: each transaction raises it (KIP-890). Every request of a
        # transaction reads it.
        self.transaction_version = 0

    @property
    def brokers(self) -> Mapping[int, BrokerRegistration]:
        """Every registered broker, also those that do not run."""
        return self._brokers

    def running_brokers(self) -> Sequence[BrokerRegistration]:
        """The brokers that clients may be sent to, by ascending id.

        One that stops is among them until others lead all its partitions: then it only tells clients so.
        """
        brokers = [each for _, each in sorted(self._brokers.items()) if not each.is_fenced]
        if any(each.state is BrokerState.RUNNING for each in brokers):
            return [each for each in brokers if each.state is BrokerState.RUNNING or self._leads(each)]
        return brokers

    def _leads(self, broker: BrokerRegistration) -> bool:
        return any(
            partition.leader_id == broker.broker_id
            for topic in self._topics.values()
            for partition in topic.partitions
        )

    @property
    def controller_id(self) -> int:
        """The broker for admin requests of clients. Every broker serves them: this one, unless it stops."""
        running = [each.broker_id for each in self.running_brokers()]
        return running[0] if running and self.broker_id not in running else self.broker_id

    @property
    def features(self) -> FinalizedFeatures:
        return self._features

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

    def configs(self, resource_type: ConfigResourceType, name: str) -> Mapping[str, str]:
        """A resource's own overrides, without defaults."""
        return self._configs.get((resource_type, name), _NOTHING_SET)

    def configured(self, resource_type: ConfigResourceType) -> Sequence[str]:
        """The names of resources of a type for which anything is set."""
        return [name for kind, name in self._configs if kind is resource_type]

    def address(self, broker_id: int, listener: str) -> tuple[str, int] | None:
        """The address of a broker for a listener; None when it is unknown or has no such listener."""
        registration = self._brokers.get(broker_id)
        return None if registration is None else registration.listeners.get(listener)

    def show(self, topic: TopicState, opened: Iterable[PartitionRegistration]) -> None:
        """This broker serves partitions of a topic already, before all that changed with them is applied.

        A topic that is new to the image is not shown before it is there as a whole.
        """
        present = self._topics.get(topic.name)
        if present is None or present.topic_id != topic.topic_id:
            return
        partitions = list(present.partitions)
        for each in opened:
            if each.partition < len(partitions):
                partitions[each.partition] = each
        self._topics[topic.name] = replace(present, partitions=tuple(partitions))

    def apply(self, changes: ClusterChanges) -> None:
        """Take over what changed in the store."""
        if changes.is_complete:
            self._brokers.clear()
            self._topics.clear()
            self._names_by_id.clear()
            self._configs.clear()
        for registration in changes.brokers:
            self._brokers[registration.broker_id] = registration
        for name, topic in changes.topics.items():
            present = self._topics.pop(name, None)
            if present is not None:
                del self._names_by_id[present.topic_id]
            if topic is not None:
                self._topics[name] = topic
                self._names_by_id[topic.topic_id] = name
        for resource, configs in changes.configs.items():
            if configs:
                self._configs[resource] = configs
            else:
                self._configs.pop(resource, None)
        if changes.features is not None:
            self._features = changes.features
            self.transaction_version = changes.features.levels.get(TRANSACTION_VERSION, 0)
        self.version = changes.version
