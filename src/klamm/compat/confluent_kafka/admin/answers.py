"""What confluent-kafka's admin answers, made of klamm's answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from klamm.client.admin.model import (
    BrokerDescription,
    ClusterDescription,
    GroupDescription,
    ListedGroup,
)
from klamm.client.admin.model import MemberDescription as OwnMember
from klamm.client.admin.model import TopicDescription as OwnTopic
from klamm.client.admin.results import Results
from klamm.compat.confluent_kafka.error import KafkaError, KafkaException
from klamm.compat.confluent_kafka.error_codes import CODES
from klamm.compat.confluent_kafka.model import (
    GROUP_STATES,
    GROUP_TYPES,
    ConsumerGroupState,
    ConsumerGroupType,
    Node,
    TopicPartitionInfo,
    Uuid,
)
from klamm.compat.confluent_kafka.partitions import TopicPartition
from klamm.protocol.types import TopicPartition as OwnPartition


@dataclass(frozen=True)
class DeletedRecords:
    """Where a partition begins now."""

    low_watermark: int


@dataclass(frozen=True)
class ListOffsetsResultInfo:
    """An offset that was asked for; -1 where the partition has none, or no timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int


@dataclass(frozen=True)
class TopicDescription:
    """A topic and its partitions."""

    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: list[TopicPartitionInfo]
    authorized_operations: list[Any] | None = None


@dataclass(frozen=True)
class DescribeClusterResult:
    """The brokers of a cluster."""

    controller: Node | None
    nodes: list[Node]
    cluster_id: str
    authorized_operations: list[Any] | None = None


@dataclass(frozen=True)
class MemberAssignment:
    """Partitions of a member."""

    topic_partitions: list[TopicPartition] = field(default_factory=list)


@dataclass(frozen=True)
class MemberDescription:
    """A member of a group."""

    member_id: str
    client_id: str
    host: str
    assignment: MemberAssignment
    group_instance_id: str | None = None
    target_assignment: MemberAssignment | None = None


@dataclass(frozen=True)
class ConsumerGroupDescription:
    """A group and its members."""

    group_id: str
    is_simple_consumer_group: bool
    members: list[MemberDescription]
    partition_assignor: str
    state: ConsumerGroupState
    coordinator: Node
    authorized_operations: list[Any] | None = None
    type: ConsumerGroupType = ConsumerGroupType.UNKNOWN


@dataclass(frozen=True)
class ConsumerGroupListing:
    """A group of the cluster."""

    group_id: str
    is_simple_consumer_group: bool
    state: ConsumerGroupState = ConsumerGroupState.UNKNOWN
    type: ConsumerGroupType = ConsumerGroupType.UNKNOWN


@dataclass(frozen=True)
class ListConsumerGroupsResult:
    """The groups of the cluster, and the errors of brokers that did not answer."""

    valid: list[ConsumerGroupListing] = field(default_factory=list)
    errors: list[KafkaException] = field(default_factory=list)


@dataclass(frozen=True)
class GroupMember:
    """A member as `list_groups` has it."""

    id: str
    client_id: str
    client_host: str


@dataclass(frozen=True)
class GroupMetadata:
    """A group as `list_groups` has it."""

    id: str
    state: str
    protocol_type: str
    protocol: str
    members: list[GroupMember]
    broker: Node | None
    error: Any = None

    def __str__(self) -> str:
        return self.id


Nodes = Mapping[int, Node]


def nodes_of(brokers: tuple[BrokerDescription, ...]) -> dict[int, Node]:
    """Brokers by their ids."""
    return {item.broker_id: Node(item.broker_id, item.host, item.port, item.rack) for item in brokers}


def node(nodes: Nodes, broker_id: int) -> Node:
    """A broker; one that is not there has an id only."""
    return nodes.get(broker_id) or Node(broker_id, "", -1)


def cluster_of(found: ClusterDescription) -> DescribeClusterResult:
    nodes = nodes_of(found.brokers)
    return DescribeClusterResult(nodes.get(found.controller_id), list(nodes.values()), found.cluster_id)


def topic_of(found: OwnTopic, nodes: Nodes) -> TopicDescription:
    partitions = [
        TopicPartitionInfo(
            item.partition,
            node(nodes, item.leader_id) if item.leader_id >= 0 else None,
            [node(nodes, number) for number in item.replicas],
            [node(nodes, number) for number in item.in_sync],
        )
        for item in found.partitions
    ]
    return TopicDescription(found.name, Uuid.of(found.topic_id), found.is_internal, partitions)


def _member_of(found: OwnMember) -> MemberDescription:
    partitions = [TopicPartition(*item) for item in found.assignment or ()]
    return MemberDescription(
        found.member_id,
        found.client_id,
        found.client_host,
        MemberAssignment(partitions),
        found.group_instance_id,
    )


def group_of(found: GroupDescription, nodes: Nodes, group_type: str) -> ConsumerGroupDescription:
    return ConsumerGroupDescription(
        found.group_id,
        not found.protocol_type,
        [_member_of(item) for item in found.members],
        found.protocol,
        GROUP_STATES.get(found.state, ConsumerGroupState.UNKNOWN),
        node(nodes, found.coordinator_id),
        type=GROUP_TYPES.get(group_type.lower(), ConsumerGroupType.UNKNOWN),
    )


def listing_of(found: ListedGroup) -> ConsumerGroupListing:
    return ConsumerGroupListing(
        found.group_id,
        not found.protocol_type,
        GROUP_STATES.get(found.state, ConsumerGroupState.UNKNOWN),
        GROUP_TYPES.get(found.group_type.lower(), ConsumerGroupType.UNKNOWN),
    )


def metadata_of(found: GroupDescription, nodes: Nodes) -> GroupMetadata:
    members = [GroupMember(item.member_id, item.client_id, item.client_host) for item in found.members]
    broker = node(nodes, found.coordinator_id)
    return GroupMetadata(found.group_id, found.state, found.protocol_type, found.protocol, members, broker)


def elections_of(results: Results[OwnPartition, bool]) -> dict[TopicPartition, KafkaError | None]:
    """None where a leader was elected; else an error, which the partition has, too."""
    elections: dict[TopicPartition, KafkaError | None] = {}
    for key in results:
        election = TopicPartition(*key)
        if key in results.errors:
            election.error = KafkaError.of(results.errors[key])
        elif not results[key]:
            election.error = KafkaError(CODES["ELECTION_NOT_NEEDED"], "Leader election not needed")
        elections[election] = election.error
    return elections
