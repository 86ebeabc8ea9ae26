"""DeleteRecords (key 21), versions 0 to 2 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class DeleteRecordsPartition:
    """Part of the request."""

    partition_index: int = 0
    offset: int = 0


@dataclass(slots=True)
class DeleteRecordsTopic:
    """Part of the request."""

    name: str = ""
    partitions: Sequence[DeleteRecordsPartition] = ()


@dataclass(slots=True)
class DeleteRecordsRequest(Request["DeleteRecordsResponse"]):
    """DeleteRecords, the request."""

    topics: Sequence[DeleteRecordsTopic] = ()
    timeout_ms: int = 0


@dataclass(slots=True)
class DeleteRecordsPartitionResult:
    """Part of the response."""

    partition_index: int = 0
    low_watermark: int = 0
    error_code: int = 0


@dataclass(slots=True)
class DeleteRecordsTopicResult:
    """Part of the response."""

    name: str = ""
    partitions: Sequence[DeleteRecordsPartitionResult] = ()


@dataclass(slots=True)
class DeleteRecordsResponse:
    """DeleteRecords, the response."""

    throttle_time_ms: int = 0
    topics: Sequence[DeleteRecordsTopicResult] = ()
