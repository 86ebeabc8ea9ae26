"""OffsetForLeaderEpoch (key 23), versions 2 to 4 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class OffsetForLeaderPartition:
    """Part of the request."""

    partition: int = 0
    current_leader_epoch: int = -1
    leader_epoch: int = 0


@dataclass(slots=True)
class OffsetForLeaderTopic:
    """Part of the request."""

    topic: str = ""
    partitions: Sequence[OffsetForLeaderPartition] = ()


@dataclass(slots=True)
class OffsetForLeaderEpochRequest(Request["OffsetForLeaderEpochResponse"]):
    """OffsetForLeaderEpoch, the request."""

    replica_id: int = -2
    topics: Sequence[OffsetForLeaderTopic] = ()


@dataclass(slots=True)
class EpochEndOffset:
    """Part of the response."""

    error_code: int = 0
    partition: int = 0
    leader_epoch: int = -1
    end_offset: int = -1


@dataclass(slots=True)
class OffsetForLeaderTopicResult:
    """Part of the response."""

    topic: str = ""
    partitions: Sequence[EpochEndOffset] = ()


@dataclass(slots=True)
class OffsetForLeaderEpochResponse:
    """OffsetForLeaderEpoch, the response."""

    throttle_time_ms: int = 0
    topics: Sequence[OffsetForLeaderTopicResult] = ()
