"""OffsetFetch (key 9), versions 1 to 10 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request
from klamm.protocol.types import ZERO_ID


@dataclass(slots=True)
class OffsetFetchRequestTopic:
    """Part of the request."""

    name: str = ""
    partition_indexes: Sequence[int] = ()


@dataclass(slots=True)
class OffsetFetchRequestTopics:
    """Part of the request."""

    topic_id: bytes = ZERO_ID
    name: str = ""
    partition_indexes: Sequence[int] = ()


@dataclass(slots=True)
class OffsetFetchRequestGroup:
    """Part of the request."""

    group_id: str = ""
    member_id: str | None = None
    member_epoch: int = -1
    topics: Sequence[OffsetFetchRequestTopics] | None = ()


@dataclass(slots=True)
class OffsetFetchRequest(Request["OffsetFetchResponse"]):
    """OffsetFetch, the request."""

    groups: Sequence[OffsetFetchRequestGroup] = ()
    group_id: str = ""
    topics: Sequence[OffsetFetchRequestTopic] | None = ()
    require_stable: bool = False
    is_batched: bool = False  # what the version implies
    has_top_level_error: bool = False  # what the version implies
    uses_topic_ids: bool = False  # what the version implies


@dataclass(slots=True)
class OffsetFetchResponsePartition:
    """Part of the response."""

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = None
    error_code: int = 0


@dataclass(slots=True)
class OffsetFetchResponseTopic:
    """Part of the response."""

    name: str = ""
    partitions: Sequence[OffsetFetchResponsePartition] = ()


@dataclass(slots=True)
class OffsetFetchResponsePartitions:
    """Part of the response."""

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = None
    error_code: int = 0


@dataclass(slots=True)
class OffsetFetchResponseTopics:
    """Part of the response."""

    topic_id: bytes = ZERO_ID
    name: str = ""
    partitions: Sequence[OffsetFetchResponsePartitions] = ()


@dataclass(slots=True)
class OffsetFetchResponseGroup:
    """Part of the response."""

    group_id: str = ""
    topics: Sequence[OffsetFetchResponseTopics] = ()
    error_code: int = 0


@dataclass(slots=True)
class OffsetFetchResponse:
    """OffsetFetch, the response."""

    throttle_time_ms: int = 0
    groups: Sequence[OffsetFetchResponseGroup] = ()
    topics: Sequence[OffsetFetchResponseTopic] = ()
    error_code: int = 0
