"""ListPartitionReassignments (key 46), versions 0 to 0 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class ListPartitionReassignmentsTopics:
    """Part of the request."""

    name: str = ""
    partition_indexes: Sequence[int] = ()


@dataclass(slots=True)
class ListPartitionReassignmentsRequest(Request["ListPartitionReassignmentsResponse"]):
    """ListPartitionReassignments, the request."""

    timeout_ms: int = 60000
    topics: Sequence[ListPartitionReassignmentsTopics] | None = ()


@dataclass(slots=True)
class OngoingPartitionReassignment:
    """Part of the response."""

    partition_index: int = 0
    replicas: Sequence[int] = ()
    adding_replicas: Sequence[int] = ()
    removing_replicas: Sequence[int] = ()


@dataclass(slots=True)
class OngoingTopicReassignment:
    """Part of the response."""

    name: str = ""
    partitions: Sequence[OngoingPartitionReassignment] = ()


@dataclass(slots=True)
class ListPartitionReassignmentsResponse:
    """ListPartitionReassignments, the response."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    topics: Sequence[OngoingTopicReassignment] = ()
