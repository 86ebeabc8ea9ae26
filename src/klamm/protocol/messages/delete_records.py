"""DeleteRecords (key 21), versions 0 to 2 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class DeleteRecordsPartition(Message):
    """Part of the request."""

    __slots__ = ("partition_index", "offset")
    SCHEMA = (
        (0, 2, "partition_index", "int32"),
        (0, 2, "offset", "int64"),
    )

    def __init__(
        self,
        partition_index: int = 0,
        offset: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.offset = offset


class DeleteRecordsTopic(Message):
    """Part of the request."""

    __slots__ = ("name", "partitions")
    SCHEMA = (
        (0, 2, "name", "string"),
        (0, 2, "partitions", "[]DeleteRecordsPartition"),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[DeleteRecordsPartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class DeleteRecordsRequest(Request["DeleteRecordsResponse"]):
    """DeleteRecords, the request."""

    __slots__ = ("topics", "timeout_ms")
    SCHEMA = (
        (0, 2, "topics", "[]DeleteRecordsTopic"),
        (0, 2, "timeout_ms", "int32"),
    )

    def __init__(
        self,
        topics: Sequence[DeleteRecordsTopic] = (),
        timeout_ms: int = 0,
    ) -> None:
        self.topics = topics
        self.timeout_ms = timeout_ms


class DeleteRecordsPartitionResult(Message):
    """Part of the response."""

    __slots__ = ("partition_index", "low_watermark", "error_code")
    SCHEMA = (
        (0, 2, "partition_index", "int32"),
        (0, 2, "low_watermark", "int64"),
        (0, 2, "error_code", "int16"),
    )

    def __init__(
        self,
        partition_index: int = 0,
        low_watermark: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.low_watermark = low_watermark
        self.error_code = error_code


class DeleteRecordsTopicResult(Message):
    """Part of the response."""

    __slots__ = ("name", "partitions")
    SCHEMA = (
        (0, 2, "name", "string"),
        (0, 2, "partitions", "[]DeleteRecordsPartitionResult"),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[DeleteRecordsPartitionResult] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class DeleteRecordsResponse(Message):
    """DeleteRecords, the response."""

    __slots__ = ("throttle_time_ms", "topics")
    SCHEMA = (
        (0, 2, "throttle_time_ms", "int32"),
        (0, 2, "topics", "[]DeleteRecordsTopicResult"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[DeleteRecordsTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
