"""The input and output of an assignor, and the base classes to write one.

Only the leader of a group calls it, once per rebalance. All input is passed as arguments, so an
assignor needs no connection and its tests need no broker.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, TypeAlias

from klamm.protocol.consumer_protocol import Assignment, Subscription
from klamm.protocol.types import TopicPartition

__all__ = [
    "COOPERATIVE",
    "EAGER",
    "Assignment",
    "Assignor",
    "ClusterView",
    "GroupMetadata",
    "GroupView",
    "Holdings",
    "MemberSubscription",
    "PartitionView",
    "RebalanceProtocol",
    "TopicAssignor",
    "TopicPartition",
]

Holdings: TypeAlias = dict[str, list[TopicPartition]]  # member id -> what it holds


class RebalanceProtocol(IntEnum):
    """How members revoke partitions; the highest that all assignors of a consumer support is used."""

    EAGER = 0  # everything is given up before every rebalance
    COOPERATIVE = 1  # only what moves is given up, and given out one rebalance later


EAGER: Final = RebalanceProtocol.EAGER
COOPERATIVE: Final = RebalanceProtocol.COOPERATIVE


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition and the racks of its replicas."""

    replica_racks: frozenset[str] = frozenset()
    leader_rack: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The topics the leader has metadata for; the index in the sequence is the partition."""

    topics: Mapping[str, Sequence[PartitionView]] = field(default_factory=dict)

    @classmethod
    def of_counts(cls, partitions_per_topic: Mapping[str, int]) -> ClusterView:
        """A cluster without racks."""
        nowhere = PartitionView()
        return cls({topic: (nowhere,) * count for topic, count in partitions_per_topic.items()})

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has; 0 when there is no metadata for it."""
        return len(self.topics.get(topic, ()))

    def partitions(self, topic: str) -> list[TopicPartition]:
        """All partitions of a topic, in order."""
        return [TopicPartition(topic, number) for number in range(self.partition_count(topic))]

    def has(self, partition: TopicPartition) -> bool:
        """Whether this partition exists."""
        return 0 <= partition.partition < self.partition_count(partition.topic)


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """One member as the leader receives it."""

    topics: frozenset[str] = frozenset()
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int | None = None
    rack: str | None = None
    group_instance_id: str | None = None

    @classmethod
    def of_wire(cls, subscription: Subscription, group_instance_id: str | None = None) -> MemberSubscription:
        """A decoded subscription, with the member's ids from JoinGroup."""
        return cls(
            frozenset(subscription.topics),
            subscription.user_data,
            subscription.owned,
            subscription.generation,
            subscription.rack,
            group_instance_id,
        )


@dataclass(frozen=True, slots=True)
class GroupView:
    """The members of the group, by member id."""

    members: Mapping[str, MemberSubscription]

    def in_order(self) -> list[str]:
        """Member ids in assignment order: static members by instance id, then dynamic ones by member id."""

        def rank(member_id: str) -> tuple[bool, str]:
            instance_id = self.members[member_id].group_instance_id
            return (instance_id is None, member_id if instance_id is None else instance_id)

        return sorted(self.members, key=rank)

    def subscribers_by_topic(self, cluster: ClusterView) -> dict[str, list[str]]:
        """The subscribers of each existing topic, in assignment order; topics are sorted."""
        subscribers: dict[str, list[str]] = {}
        for member_id in self.in_order():
            for topic in self.members[member_id].topics:
                if cluster.partition_count(topic):
                    subscribers.setdefault(topic, []).append(member_id)
        return dict(sorted(subscribers.items()))


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """The consumer's identity in its group; also fences offsets sent to a transaction."""

    group_id: str
    generation: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class Assignor(ABC):
    """One way to share partitions among the members of a group.

    `name` is sent to the group: all members must support it. `version` is that of the user data and of the
    algorithm. `COOPERATIVE` among the supported protocols is a guarantee: never give a partition to a
    member while another one still owns it.
    """

    name: str
    version: int = 0
    supported_protocols: tuple[RebalanceProtocol, ...] = (EAGER,)

    # A hook, not a duty: most assignors take no settings.
    def configure(self, config: Mapping[str, object]) -> None:  # noqa: B027
        """Take what this assignor needs from the consumer's configuration, under Kafka's dotted names."""

    def subscription_user_data(self, topics: frozenset[str]) -> bytes | None:
        """User data that this member sends to the leader with its subscription."""
        return None

    @abstractmethod
    def assign(self, cluster: ClusterView, group: GroupView) -> dict[str, Assignment]:
        """Assign the partitions. Called on the leader only."""

    # A hook, not a duty: only an assignor with a memory listens.
    def on_assignment(self, assignment: Assignment, group_metadata: GroupMetadata) -> None:  # noqa: B027
        """Called on every member with its assignment, before the rebalance listener."""


class TopicAssignor(Assignor):
    """Base of an assignor that needs nothing but partition counts and members."""

    @abstractmethod
    def assign_partitions(
        self, partitions_per_topic: Mapping[str, int], members: Mapping[str, MemberSubscription]
    ) -> Mapping[str, Iterable[TopicPartition]]:
        """Share the partitions of topics that exist and have a subscriber; both mappings are sorted."""

    def assign(self, cluster: ClusterView, group: GroupView) -> dict[str, Assignment]:
        counts = {topic: cluster.partition_count(topic) for topic in group.subscribers_by_topic(cluster)}
        members = dict(sorted(group.members.items()))
        return as_assignments(members, self.assign_partitions(counts, members))


def as_assignments(
    members: Iterable[str], holdings: Mapping[str, Iterable[TopicPartition]]
) -> dict[str, Assignment]:
    """Holdings as assignments: every member has one, partitions sorted.

    A member that is not in the group keeps its entry, so that the leader's checks can name it.
    """
    everybody = dict.fromkeys([*members, *holdings])
    return {member_id: Assignment(tuple(sorted(holdings.get(member_id, ())))) for member_id in everybody}
