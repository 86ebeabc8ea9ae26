"""DescribeLogDirs (key 35), versions 1 to 5 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class DescribableLogDirTopic:
    """Part of the request."""

    topic: str = ""
    partitions: Sequence[int] = ()


@dataclass(slots=True)
class DescribeLogDirsRequest(Request["DescribeLogDirsResponse"]):
    """DescribeLogDirs, the request."""

    topics: Sequence[DescribableLogDirTopic] | None = ()


@dataclass(slots=True)
class DescribeLogDirsPartition:
    """Part of the response."""

    partition_index: int = 0
    partition_size: int = 0
    offset_lag: int = 0
    is_future_key: bool = False


@dataclass(slots=True)
class DescribeLogDirsTopic:
    """Part of the response."""

    name: str = ""
    partitions: Sequence[DescribeLogDirsPartition] = ()


@dataclass(slots=True)
class DescribeLogDirsResult:
    """Part of the response."""

    error_code: int = 0
    log_dir: str = ""
    topics: Sequence[DescribeLogDirsTopic] = ()
    total_bytes: int = -1
    usable_bytes: int = -1
    is_cordoned: bool = False


@dataclass(slots=True)
class DescribeLogDirsResponse:
    """DescribeLogDirs, the response."""

    throttle_time_ms: int = 0
    error_code: int = 0
    results: Sequence[DescribeLogDirsResult] = ()
