"""A snapshot of the cluster's metadata: brokers, topics, leaders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from klamm.protocol.types import ZERO_ID, TopicPartition


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """One broker of the cluster."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """One partition: leader, leader epoch, replicas."""

    partition: int
    leader_id: int  # -1: none
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """One topic."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: Mapping[int, PartitionInfo]


@dataclass(frozen=True, slots=True)
class Cluster:
    """An unchanging snapshot; each metadata answer makes a new one."""

    cluster_id: str | None = None
    controller_id: int = -1
    brokers: Mapping[int, BrokerInfo] = field(default_factory=lambda: MappingProxyType({}))
    topics: Mapping[str, TopicInfo] = field(default_factory=lambda: MappingProxyType({}))
    errors: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))  # by topic name

    def partition(self, partition: TopicPartition) -> PartitionInfo | None:
        topic = self.topics.get(partition.topic)
        return topic.partitions.get(partition.partition) if topic else None

    def name_of(self, topic_id: bytes) -> str | None:
        """The topic with this id; None when the snapshot has none."""
        return next((topic.name for topic in self.topics.values() if topic.topic_id == topic_id), None)

    def partitions_of(self, topics: Iterable[str]) -> list[TopicPartition]:
        return [
            TopicPartition(name, number)
            for name in topics
            if name in self.topics
            for number in sorted(self.topics[name].partitions)
        ]

    def with_leader(self, partition: TopicPartition, leader_id: int, leader_epoch: int) -> Cluster:
        """This snapshot with a newer leader of one partition; itself if it has that already."""
        topic, info = self.topics.get(partition.topic), self.partition(partition)
        if topic is None or info is None or leader_epoch <= info.leader_epoch:
            return self
        partitions = dict(topic.partitions)
        partitions[partition.partition] = replace(info, leader_id=leader_id, leader_epoch=leader_epoch)
        topics = dict(self.topics)
        topics[topic.name] = replace(topic, partitions=MappingProxyType(partitions))
        return replace(self, topics=MappingProxyType(topics))

    def with_brokers(self, brokers: Iterable[BrokerInfo]) -> Cluster:
        """This snapshot with the addresses of these brokers."""
        known = dict(self.brokers) | {broker.broker_id: broker for broker in brokers}
        return replace(self, brokers=MappingProxyType(known))

    def updated(self, response: MetadataResponse, *, is_complete: bool) -> Cluster:
        """This snapshot after a response. A complete one (all topics) drops topics not in it.

        A partition keeps its state if the response has an older leader epoch: responses of
        different brokers may overtake each other.
        """
        topics = {} if is_complete else dict(self.topics)
        errors = {} if is_complete else dict(self.errors)
        for entry in response.topics:
            name = entry.name
            if name is None:
                continue
            errors.pop(name, None)
            if entry.error_code != ErrorCode.none:
                errors[name] = entry.error_code
                if entry.error_code == ErrorCode.unknown_topic_or_partition:
                    topics.pop(name, None)
                continue
            topics[name] = _topic(entry, self.topics.get(name))
        brokers = {
            entry.node_id: BrokerInfo(entry.node_id, entry.host, entry.port, entry.rack)
            for entry in response.brokers
        }
        return Cluster(
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            brokers=MappingProxyType(brokers),
            topics=MappingProxyType(topics),
            errors=MappingProxyType(errors),
        )


def _topic(entry: MetadataResponseTopic, known: TopicInfo | None) -> TopicInfo:
    same_topic = known is not None and known.topic_id in (entry.topic_id, ZERO_ID)
    partitions = {}
    for item in entry.partitions:
        info = PartitionInfo(
            partition=item.partition_index,
            leader_id=item.leader_id,
            leader_epoch=item.leader_epoch,
            replicas=tuple(item.replica_nodes),
            in_sync=tuple(item.isr_nodes),
        )
        before = known.partitions.get(item.partition_index) if known and same_topic else None
        is_stale = before is not None and 0 <= info.leader_epoch < before.leader_epoch
        partitions[item.partition_index] = before if is_stale and before else info
    return TopicInfo(entry.name or "", entry.topic_id, entry.is_internal, MappingProxyType(partitions))
