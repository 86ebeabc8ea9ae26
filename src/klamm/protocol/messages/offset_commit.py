"""OffsetCommit (key 8), versions 2 to 10 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request
from klamm.protocol.types import ZERO_ID


@dataclass(slots=True)
class OffsetCommitRequestPartition:
    """Part of the request."""

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = None


@dataclass(slots=True)
class OffsetCommitRequestTopic:
    """Part of the request."""

    topic_id: bytes = ZERO_ID
    name: str = ""
    partitions: Sequence[OffsetCommitRequestPartition] = ()


@dataclass(slots=True)
class OffsetCommitRequest(Request["OffsetCommitResponse"]):
    """OffsetCommit, the request."""

    group_id: str = ""
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time_ms: int = -1
    topics: Sequence[OffsetCommitRequestTopic] = ()
    knows_group_id_not_found: bool = False  # what the version implies
    uses_topic_ids: bool = False  # what the version implies


@dataclass(slots=True)
class OffsetCommitResponsePartition:
    """Part of the response."""

    partition_index: int = 0
    error_code: int = 0


@dataclass(slots=True)
class OffsetCommitResponseTopic:
    """Part of the response."""

    topic_id: bytes = ZERO_ID
    name: str = ""
    partitions: Sequence[OffsetCommitResponsePartition] = ()


@dataclass(slots=True)
class OffsetCommitResponse:
    """OffsetCommit, the response."""

    throttle_time_ms: int = 0
    topics: Sequence[OffsetCommitResponseTopic] = ()
