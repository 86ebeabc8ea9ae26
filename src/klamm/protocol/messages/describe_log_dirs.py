"""DescribeLogDirs (key 35), versions 1 to 5 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class DescribableLogDirTopic(Message):
    """Part of the request."""

    __slots__ = ("topic", "partitions")
    SCHEMA = (
        (1, 5, "topic", "string"),
        (1, 5, "partitions", "[]int32"),
    )

    def __init__(
        self,
        topic: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic = topic
        self.partitions = partitions


class DescribeLogDirsRequest(Request["DescribeLogDirsResponse"]):
    """DescribeLogDirs, the request."""

    __slots__ = ("topics",)
    SCHEMA = ((1, 5, "topics", "[]DescribableLogDirTopic?"),)

    def __init__(
        self,
        topics: Sequence[DescribableLogDirTopic] | None = (),
    ) -> None:
        self.topics = topics


class DescribeLogDirsPartition(Message):
    """Part of the response."""

    __slots__ = ("partition_index", "partition_size", "offset_lag", "is_future_key")
    SCHEMA = (
        (1, 5, "partition_index", "int32"),
        (1, 5, "partition_size", "int64"),
        (1, 5, "offset_lag", "int64"),
        (1, 5, "is_future_key", "bool"),
    )

    def __init__(
        self,
        partition_index: int = 0,
        partition_size: int = 0,
        offset_lag: int = 0,
        is_future_key: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.partition_size = partition_size
        self.offset_lag = offset_lag
        self.is_future_key = is_future_key


class DescribeLogDirsTopic(Message):
    """Part of the response."""

    __slots__ = ("name", "partitions")
    SCHEMA = (
        (1, 5, "name", "string"),
        (1, 5, "partitions", "[]DescribeLogDirsPartition"),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[DescribeLogDirsPartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class DescribeLogDirsResult(Message):
    """Part of the response."""

    __slots__ = ("error_code", "log_dir", "topics", "total_bytes", "usable_bytes", "is_cordoned")
    SCHEMA = (
        (1, 5, "error_code", "int16"),
        (1, 5, "log_dir", "string"),
        (1, 5, "topics", "[]DescribeLogDirsTopic"),
        (4, 5, "total_bytes", "int64"),
        (4, 5, "usable_bytes", "int64"),
        (5, 5, "is_cordoned", "bool"),
    )

    def __init__(
        self,
        error_code: int = 0,
        log_dir: str = "",
        topics: Sequence[DescribeLogDirsTopic] = (),
        total_bytes: int = -1,
        usable_bytes: int = -1,
        is_cordoned: bool = False,
    ) -> None:
        self.error_code = error_code
        self.log_dir = log_dir
        self.topics = topics
        self.total_bytes = total_bytes
        self.usable_bytes = usable_bytes
        self.is_cordoned = is_cordoned


class DescribeLogDirsResponse(Message):
    """DescribeLogDirs, the response."""

    __slots__ = ("throttle_time_ms", "error_code", "results")
    SCHEMA = (
        (1, 5, "throttle_time_ms", "int32"),
        (3, 5, "error_code", "int16"),
        (1, 5, "results", "[]DescribeLogDirsResult"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results: Sequence[DescribeLogDirsResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results = results
