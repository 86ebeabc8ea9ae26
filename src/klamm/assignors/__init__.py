"""Assignors: how the members of a group share its partitions."""

from klamm.assignors.base import (
    COOPERATIVE,
    EAGER,
    Assignment,
    Assignor,
    ClusterView,
    GroupMetadata,
    GroupView,
    MemberSubscription,
    PartitionView,
    RebalanceProtocol,
    TopicAssignor,
    TopicPartition,
)

__all__ = [
    "COOPERATIVE",
    "EAGER",
    "Assignment",
    "Assignor",
    "ClusterView",
    "GroupMetadata",
    "GroupView",
    "MemberSubscription",
    "PartitionView",
    "RebalanceProtocol",
    "TopicAssignor",
    "TopicPartition",
]
