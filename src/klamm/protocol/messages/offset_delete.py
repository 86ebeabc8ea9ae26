"""OffsetDelete (key 47), versions 0 to 0 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class OffsetDeleteRequestPartition:
    """Part of the request."""

    partition_index: int = 0


@dataclass(slots=True)
class OffsetDeleteRequestTopic:
    """Part of the request."""

    name: str = ""
    partitions: Sequence[OffsetDeleteRequestPartition] = ()


@dataclass(slots=True)
class OffsetDeleteRequest(Request["OffsetDeleteResponse"]):
    """OffsetDelete, the request."""

    group_id: str = ""
    topics: Sequence[OffsetDeleteRequestTopic] = ()


@dataclass(slots=True)
class OffsetDeleteResponsePartition:
    """Part of the response."""

    partition_index: int = 0
    error_code: int = 0


@dataclass(slots=True)
class OffsetDeleteResponseTopic:
    """Part of the response."""

    name: str = ""
    partitions: Sequence[OffsetDeleteResponsePartition] = ()


@dataclass(slots=True)
class OffsetDeleteResponse:
    """OffsetDelete, the response."""

    error_code: int = 0
    throttle_time_ms: int = 0
    topics: Sequence[OffsetDeleteResponseTopic] = ()
