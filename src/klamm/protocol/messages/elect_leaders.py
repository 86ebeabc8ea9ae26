"""ElectLeaders (key 43), versions 0 to 2 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class TopicPartitions:
    """Part of the request."""

    topic: str = ""
    partitions: Sequence[int] = ()


@dataclass(slots=True)
class ElectLeadersRequest(Request["ElectLeadersResponse"]):
    """ElectLeaders, the request."""

    election_type: int = 0
    topic_partitions: Sequence[TopicPartitions] | None = ()
    timeout_ms: int = 60000


@dataclass(slots=True)
class PartitionResult:
    """Part of the response."""

    partition_id: int = 0
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True)
class ReplicaElectionResult:
    """Part of the response."""

    topic: str = ""
    partition_result: Sequence[PartitionResult] = ()


@dataclass(slots=True)
class ElectLeadersResponse:
    """ElectLeaders, the response."""

    throttle_time_ms: int = 0
    error_code: int = 0
    replica_election_results: Sequence[ReplicaElectionResult] = ()
