"""ListOffsets (key 2), versions 1 to 11 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class ListOffsetsPartition:
    """Part of the request."""

    partition_index: int = 0
    current_leader_epoch: int = -1
    timestamp: int = 0


@dataclass(slots=True)
class ListOffsetsTopic:
    """Part of the request."""

    name: str = ""
    partitions: Sequence[ListOffsetsPartition] = ()


@dataclass(slots=True)
class ListOffsetsRequest(Request["ListOffsetsResponse"]):
    """ListOffsets, the request."""

    replica_id: int = 0
    isolation_level: int = 0
    topics: Sequence[ListOffsetsTopic] = ()
    timeout_ms: int = 0
    knows_max_timestamp: bool = False  # what the version implies
    knows_local_log_start: bool = False  # what the version implies
    knows_tiered_offset: bool = False  # what the version implies
    knows_pending_upload: bool = False  # what the version implies


@dataclass(slots=True)
class ListOffsetsPartitionResponse:
    """Part of the response."""

    partition_index: int = 0
    error_code: int = 0
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


@dataclass(slots=True)
class ListOffsetsTopicResponse:
    """Part of the response."""

    name: str = ""
    partitions: Sequence[ListOffsetsPartitionResponse] = ()


@dataclass(slots=True)
class ListOffsetsResponse:
    """ListOffsets, the response."""

    throttle_time_ms: int = 0
    topics: Sequence[ListOffsetsTopicResponse] = ()
