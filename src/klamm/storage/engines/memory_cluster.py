"""Cluster metadata in memory, lost when the process ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from threading import Lock

from klamm.protocol.types import id_to_text
from klamm.storage.cluster import (
    FIRST_PRODUCER_ID,
    LAST_PRODUCER_ID,
    BrokerRegistration,
    ConflictError,
    FinalizedFeatures,
    PartitionRegistration,
    ResourceType,
    TopicState,
    follow_on,
    new_topic_id,
    set_levels,
)


class MemoryCluster:
    """A ClusterStore in dictionaries; threads may share it."""

    def __init__(self, *, random: Random) -> None:
        self._cluster_id = id_to_text(new_topic_id(random))
        self._lock = Lock()
        self._version = 0
        self._brokers: dict[int, BrokerRegistration] = {}
        self._topics: dict[str, TopicState] = {}
        self._configs: dict[tuple[ResourceType, str], dict[str, str]] = {}
        self._features = FinalizedFeatures()
        self._next_producer_id = FIRST_PRODUCER_ID

    @property
    def cluster_id(self) -> str:
        return self._cluster_id

    def version(self) -> int:
        return self._version

    def register_broker(self, registration: BrokerRegistration) -> None:
        with self._lock:
            self._brokers[registration.broker_id] = replace(
                registration, listeners=dict(registration.listeners)
            )
            self._version += 1

    def brokers(self) -> Sequence[BrokerRegistration]:
        with self._lock:
            return [self._brokers[broker_id] for broker_id in sorted(self._brokers)]

    def topics(self) -> Mapping[str, TopicState]:
        with self._lock:
            return dict(self._topics)

    def create_topic(self, topic: TopicState, configs: Mapping[str, str]) -> None:
        if not follow_on(0, topic.partitions):
            raise ValueError(f"partitions of {topic.name} are not numbered from 0")
        with self._lock:
            if topic.name in self._topics:
                raise ConflictError(f"topic {topic.name} exists")
            if any(topic.topic_id == other.topic_id for other in self._topics.values()):
                raise ConflictError(f"topic id {id_to_text(topic.topic_id)} exists")
            self._topics[topic.name] = topic
            self._set_configs(ResourceType.TOPIC, topic.name, configs)
            self._version += 1

    def delete_topic(self, name: str, topic_id: bytes) -> None:
        with self._lock:
            self._topic(name, topic_id)
            del self._topics[name]
            self._configs.pop((ResourceType.TOPIC, name), None)
            self._version += 1

    def add_partitions(self, name: str, topic_id: bytes, added: Sequence[PartitionRegistration]) -> None:
        with self._lock:
            topic = self._topic(name, topic_id)
            if not follow_on(len(topic.partitions), added):
                raise ConflictError(f"topic {name} now has {len(topic.partitions)} partitions")
            self._topics[name] = replace(topic, partitions=(*topic.partitions, *added))
            self._version += 1

    def lead(
        self, broker_id: int, partitions: Sequence[tuple[str, int]] | None = None
    ) -> Mapping[tuple[str, int], int]:
        with self._lock:
            kept = {
                (topic.name, state.partition): state
                for topic in self._topics.values()
                for state in topic.partitions
                if broker_id in state.replicas
            }
            wanted = kept if partitions is None else {(topic, partition) for topic, partition in partitions}
            for key in wanted:
                if key not in kept:
                    raise ConflictError(f"broker {broker_id} is not a replica of {key[0]}-{key[1]}")
            epochs = {key: kept[key].leader_epoch + 1 for key in wanted}
            for (name, partition), epoch in epochs.items():
                states = list(self._topics[name].partitions)
                states[partition] = replace(states[partition], leader_id=broker_id, leader_epoch=epoch)
                self._topics[name] = replace(self._topics[name], partitions=tuple(states))
            self._version += 1
            return epochs

    def configs(self, resource_type: ResourceType, name: str) -> Mapping[str, str]:
        with self._lock:
            return dict(self._configs.get((resource_type, name), {}))

    def all_configs(self) -> Mapping[tuple[ResourceType, str], Mapping[str, str]]:
        with self._lock:
            return {resource: dict(configs) for resource, configs in self._configs.items()}

    def replace_configs(
        self,
        resource_type: ResourceType,
        name: str,
        configs: Mapping[str, str],
        *,
        expected: Mapping[str, str] | None = None,
    ) -> None:
        with self._lock:
            if resource_type is ResourceType.TOPIC and name not in self._topics:
                raise ConflictError(f"topic {name} does not exist")
            if expected is not None and self._configs.get((resource_type, name), {}) != expected:
                raise ConflictError(f"configuration of {name} was changed concurrently")
            self._set_configs(resource_type, name, configs)
            self._version += 1

    def features(self) -> FinalizedFeatures:
        return self._features

    def finalize_features(self, levels: Mapping[str, int], *, expected_epoch: int) -> FinalizedFeatures:
        with self._lock:
            if self._features.epoch != expected_epoch:
                raise ConflictError("the finalized features changed meanwhile")
            self._features = FinalizedFeatures(expected_epoch + 1, set_levels(levels))
            self._version += 1
            return self._features

    def allocate_producer_ids(self, count: int) -> range:
        if count < 1:
            raise ValueError(f"invalid producer id block size {count}: expected at least 1")
        with self._lock:
            first = self._next_producer_id
            if first + count > LAST_PRODUCER_ID:
                raise OverflowError("producer ids are exhausted")
            self._next_producer_id = first + count
            self._version += 1
            return range(first, first + count)

    def close(self) -> None:
        """Nothing to close; the content stays readable."""

    def _topic(self, name: str, topic_id: bytes) -> TopicState:
        topic = self._topics.get(name)
        if topic is None or topic.topic_id != topic_id:
            raise ConflictError(f"topic {name} does not have id {id_to_text(topic_id)}")
        return topic

    def _set_configs(self, resource_type: ResourceType, name: str, configs: Mapping[str, str]) -> None:
        if configs:
            self._configs[resource_type, name] = dict(configs)
        else:
            self._configs.pop((resource_type, name), None)
