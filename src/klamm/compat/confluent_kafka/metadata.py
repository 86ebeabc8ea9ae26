"""What `list_topics()` returns: the cluster, its brokers, topics and partitions."""

from __future__ import annotations

from collections.abc import Mapping

from klamm.compat.confluent_kafka.error import KafkaError
from klamm.compat.confluent_kafka.error_codes import CODES
from klamm.net.cluster import BrokerInfo, Cluster, PartitionInfo, TopicInfo


class BrokerMetadata:
    """One broker."""

    def __init__(self, info: BrokerInfo) -> None:
        self.id = info.broker_id
        self.host = info.host
        self.port = info.port

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.id}"

    def __repr__(self) -> str:
        return f"BrokerMetadata({self.id}, {self.host}:{self.port})"


class PartitionMetadata:
    """One partition."""

    def __init__(self, info: PartitionInfo) -> None:
        self.id = info.partition
        self.leader = info.leader_id
        self.replicas = list(info.replicas)
        self.isrs = list(info.in_sync)
        self.error: KafkaError | None = None
        if info.leader_id < 0:
            self.error = KafkaError(CODES["LEADER_NOT_AVAILABLE"], "the partition has no leader")

    def __str__(self) -> str:
        return str(self.id)

    def __repr__(self) -> str:
        return (
            f"PartitionMetadata({self.id})"
            if self.error is None
            else f"PartitionMetadata({self.id}, {self.error})"
        )


class TopicMetadata:
    """One topic; `error` says why it has no partitions."""

    def __init__(self, name: str, info: TopicInfo | None) -> None:
        self.topic = name
        self.partitions = (
            {}
            if info is None
            else {number: PartitionMetadata(item) for number, item in info.partitions.items()}
        )
        self.error: KafkaError | None = None
        if info is None:
            self.error = KafkaError(CODES["UNKNOWN_TOPIC_OR_PART"], f"topic {name} does not exist")

    def __str__(self) -> str:
        return self.topic

    def __repr__(self) -> str:
        error = "" if self.error is None else f", {self.error}"
        return f"TopicMetadata({self.topic}, {len(self.partitions)} partitions{error})"


class ClusterMetadata:
    """The cluster, as the last answer had it."""

    def __init__(self, cluster: Cluster, topics: Mapping[str, TopicInfo], asked: str | None) -> None:
        self.cluster_id = cluster.cluster_id
        self.controller_id = cluster.controller_id
        self.brokers = {number: BrokerMetadata(info) for number, info in cluster.brokers.items()}
        self.topics = {name: TopicMetadata(name, info) for name, info in topics.items()}
        if asked is not None and asked not in self.topics:
            self.topics[asked] = TopicMetadata(asked, None)

    def __str__(self) -> str:
        return str(self.cluster_id)

    def __repr__(self) -> str:
        return f"ClusterMetadata({self.cluster_id})"
