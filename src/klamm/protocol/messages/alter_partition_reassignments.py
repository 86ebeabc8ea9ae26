"""AlterPartitionReassignments (key 45), versions 0 to 1 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class ReassignablePartition:
    """Part of the request."""

    partition_index: int = 0
    replicas: Sequence[int] | None = None


@dataclass(slots=True)
class ReassignableTopic:
    """Part of the request."""

    name: str = ""
    partitions: Sequence[ReassignablePartition] = ()


@dataclass(slots=True)
class AlterPartitionReassignmentsRequest(Request["AlterPartitionReassignmentsResponse"]):
    """AlterPartitionReassignments, the request."""

    timeout_ms: int = 60000
    allow_replication_factor_change: bool = True
    topics: Sequence[ReassignableTopic] = ()


@dataclass(slots=True)
class ReassignablePartitionResponse:
    """Part of the response."""

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True)
class ReassignableTopicResponse:
    """Part of the response."""

    name: str = ""
    partitions: Sequence[ReassignablePartitionResponse] = ()


@dataclass(slots=True)
class AlterPartitionReassignmentsResponse:
    """AlterPartitionReassignments, the response."""

    throttle_time_ms: int = 0
    allow_replication_factor_change: bool = True
    error_code: int = 0
    error_message: str | None = None
    responses: Sequence[ReassignableTopicResponse] = ()
