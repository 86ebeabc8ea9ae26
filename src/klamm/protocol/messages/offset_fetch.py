"""OffsetFetch (key 9), versions 1 to 10 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request
from klamm.protocol.types import ZERO_ID


class OffsetFetchRequestTopic(Message):
    """Part of the request."""

    __slots__ = ("name", "partition_indexes")
    SCHEMA = (
        (1, 7, "name", "string"),
        (1, 7, "partition_indexes", "[]int32"),
    )

    def __init__(
        self,
        name: str = "",
        partition_indexes: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.partition_indexes = partition_indexes


class OffsetFetchRequestTopics(Message):
    """Part of the request."""

    __slots__ = ("topic_id", "name", "partition_indexes")
    SCHEMA = (
        (10, 10, "topic_id", "uuid"),
        (8, 9, "name", "string"),
        (8, 10, "partition_indexes", "[]int32"),
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_ID,
        name: str = "",
        partition_indexes: Sequence[int] = (),
    ) -> None:
        self.topic_id = topic_id
        self.name = name
        self.partition_indexes = partition_indexes


class OffsetFetchRequestGroup(Message):
    """Part of the request."""

    __slots__ = ("group_id", "member_id", "member_epoch", "topics")
    SCHEMA = (
        (8, 10, "group_id", "string"),
        (9, 10, "member_id", "string?"),
        (9, 10, "member_epoch", "int32"),
        (8, 10, "topics", "[]OffsetFetchRequestTopics?"),
    )

    def __init__(
        self,
        group_id: str = "",
        member_id: str | None = None,
        member_epoch: int = -1,
        topics: Sequence[OffsetFetchRequestTopics] | None = (),
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.topics = topics


class OffsetFetchRequest(Request["OffsetFetchResponse"]):
    """OffsetFetch, the request."""

    __slots__ = (
        "groups",
        "group_id",
        "topics",
        "require_stable",
        "is_batched",
        "has_top_level_error",
        "uses_topic_ids",
    )
    SCHEMA = (
        (8, 10, "groups", "[]OffsetFetchRequestGroup"),
        (1, 7, "group_id", "string"),
        (1, 1, "topics", "[]OffsetFetchRequestTopic"),
        (2, 7, "topics", "[]OffsetFetchRequestTopic?"),
        (7, 10, "require_stable", "bool"),
    )

    def __init__(
        self,
        groups: Sequence[OffsetFetchRequestGroup] = (),
        group_id: str = "",
        topics: Sequence[OffsetFetchRequestTopic] | None = (),
        require_stable: bool = False,
        is_batched: bool = False,  # what the version implies
        has_top_level_error: bool = False,  # what the version implies
        uses_topic_ids: bool = False,  # what the version implies
    ) -> None:
        self.groups = groups
        self.group_id = group_id
        self.topics = topics
        self.require_stable = require_stable
        self.is_batched = is_batched
        self.has_top_level_error = has_top_level_error
        self.uses_topic_ids = uses_topic_ids


class OffsetFetchResponsePartition(Message):
    """Part of the response."""

    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")
    SCHEMA = (
        (1, 7, "partition_index", "int32"),
        (1, 7, "committed_offset", "int64"),
        (5, 7, "committed_leader_epoch", "int32"),
        (1, 7, "metadata", "string?"),
        (1, 7, "error_code", "int16"),
    )

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = None,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseTopic(Message):
    """Part of the response."""

    __slots__ = ("name", "partitions")
    SCHEMA = (
        (1, 7, "name", "string"),
        (1, 7, "partitions", "[]OffsetFetchResponsePartition"),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[OffsetFetchResponsePartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class OffsetFetchResponsePartitions(Message):
    """Part of the response."""

    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")
    SCHEMA = (
        (8, 10, "partition_index", "int32"),
        (8, 10, "committed_offset", "int64"),
        (8, 10, "committed_leader_epoch", "int32"),
        (8, 10, "metadata", "string?"),
        (8, 10, "error_code", "int16"),
    )

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = None,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseTopics(Message):
    """Part of the response."""

    __slots__ = ("topic_id", "name", "partitions")
    SCHEMA = (
        (10, 10, "topic_id", "uuid"),
        (8, 9, "name", "string"),
        (8, 10, "partitions", "[]OffsetFetchResponsePartitions"),
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_ID,
        name: str = "",
        partitions: Sequence[OffsetFetchResponsePartitions] = (),
    ) -> None:
        self.topic_id = topic_id
        self.name = name
        self.partitions = partitions


class OffsetFetchResponseGroup(Message):
    """Part of the response."""

    __slots__ = ("group_id", "topics", "error_code")
    SCHEMA = (
        (8, 10, "group_id", "string"),
        (8, 10, "topics", "[]OffsetFetchResponseTopics"),
        (8, 10, "error_code", "int16"),
    )

    def __init__(
        self,
        group_id: str = "",
        topics: Sequence[OffsetFetchResponseTopics] = (),
        error_code: int = 0,
    ) -> None:
        self.group_id = group_id
        self.topics = topics
        self.error_code = error_code


class OffsetFetchResponse(Message):
    """OffsetFetch, the response."""

    __slots__ = ("throttle_time_ms", "groups", "topics", "error_code")
    SCHEMA = (
        (3, 10, "throttle_time_ms", "int32"),
        (8, 10, "groups", "[]OffsetFetchResponseGroup"),
        (1, 7, "topics", "[]OffsetFetchResponseTopic"),
        (2, 7, "error_code", "int16"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        groups: Sequence[OffsetFetchResponseGroup] = (),
        topics: Sequence[OffsetFetchResponseTopic] = (),
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = groups
        self.topics = topics
        self.error_code = error_code
