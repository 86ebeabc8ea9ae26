"""Assignors of the group coordinator: how a group of the consumer protocol shares its partitions."""

from klamm.assignors.base import PartitionView
from klamm.assignors.server.computing import AssignorFailure, CheckedTarget, compute_target, is_quick, overdue
from klamm.assignors.server.model import (
    GroupAssignor,
    GroupSpec,
    MemberSpec,
    Share,
    Target,
    TopicSpec,
)
from klamm.assignors.server.registry import load_group_assignors

__all__ = [
    "AssignorFailure",
    "CheckedTarget",
    "GroupAssignor",
    "GroupSpec",
    "MemberSpec",
    "PartitionView",
    "Share",
    "Target",
    "TopicSpec",
    "compute_target",
    "is_quick",
    "load_group_assignors",
    "overdue",
]
