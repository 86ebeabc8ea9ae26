"""OffsetDelete (key 47), versions 0 to 0 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class OffsetDeleteRequestPartition(Message):
    """Part of the request."""

    __slots__ = ("partition_index",)
    SCHEMA = ((0, 0, "partition_index", "int32"),)

    def __init__(
        self,
        partition_index: int = 0,
    ) -> None:
        self.partition_index = partition_index


class OffsetDeleteRequestTopic(Message):
    """Part of the request."""

    __slots__ = ("name", "partitions")
    SCHEMA = (
        (0, 0, "name", "string"),
        (0, 0, "partitions", "[]OffsetDeleteRequestPartition"),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[OffsetDeleteRequestPartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class OffsetDeleteRequest(Request["OffsetDeleteResponse"]):
    """OffsetDelete, the request."""

    __slots__ = ("group_id", "topics")
    SCHEMA = (
        (0, 0, "group_id", "string"),
        (0, 0, "topics", "[]OffsetDeleteRequestTopic"),
    )

    def __init__(
        self,
        group_id: str = "",
        topics: Sequence[OffsetDeleteRequestTopic] = (),
    ) -> None:
        self.group_id = group_id
        self.topics = topics


class OffsetDeleteResponsePartition(Message):
    """Part of the response."""

    __slots__ = ("partition_index", "error_code")
    SCHEMA = (
        (0, 0, "partition_index", "int32"),
        (0, 0, "error_code", "int16"),
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class OffsetDeleteResponseTopic(Message):
    """Part of the response."""

    __slots__ = ("name", "partitions")
    SCHEMA = (
        (0, 0, "name", "string"),
        (0, 0, "partitions", "[]OffsetDeleteResponsePartition"),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[OffsetDeleteResponsePartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class OffsetDeleteResponse(Message):
    """OffsetDelete, the response."""

    __slots__ = ("error_code", "throttle_time_ms", "topics")
    SCHEMA = (
        (0, 0, "error_code", "int16"),
        (0, 0, "throttle_time_ms", "int32"),
        (0, 0, "topics", "[]OffsetDeleteResponseTopic"),
    )

    def __init__(
        self,
        error_code: int = 0,
        throttle_time_ms: int = 0,
        topics: Sequence[OffsetDeleteResponseTopic] = (),
    ) -> None:
        self.error_code = error_code
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
