"""OffsetCommit (key 8), versions 2 to 10 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request
from klamm.protocol.types import ZERO_ID


class OffsetCommitRequestPartition(Message):
    """Part of the request."""

    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata")
    SCHEMA = (
        (2, 10, "partition_index", "int32"),
        (2, 10, "committed_offset", "int64"),
        (6, 10, "committed_leader_epoch", "int32"),
        (2, 10, "committed_metadata", "string?"),
    )

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata


class OffsetCommitRequestTopic(Message):
    """Part of the request."""

    __slots__ = ("topic_id", "name", "partitions")
    SCHEMA = (
        (10, 10, "topic_id", "uuid"),
        (2, 9, "name", "string"),
        (2, 10, "partitions", "[]OffsetCommitRequestPartition"),
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_ID,
        name: str = "",
        partitions: Sequence[OffsetCommitRequestPartition] = (),
    ) -> None:
        self.topic_id = topic_id
        self.name = name
        self.partitions = partitions


class OffsetCommitRequest(Request["OffsetCommitResponse"]):
    """OffsetCommit, the request."""

    __slots__ = (
        "group_id",
        "generation_id_or_member_epoch",
        "member_id",
        "group_instance_id",
        "retention_time_ms",
        "topics",
        "knows_group_id_not_found",
        "uses_topic_ids",
    )
    SCHEMA = (
        (2, 10, "group_id", "string"),
        (2, 10, "generation_id_or_member_epoch", "int32"),
        (2, 10, "member_id", "string"),
        (7, 10, "group_instance_id", "string?"),
        (2, 4, "retention_time_ms", "int64"),
        (2, 10, "topics", "[]OffsetCommitRequestTopic"),
    )

    def __init__(
        self,
        group_id: str = "",
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        retention_time_ms: int = -1,
        topics: Sequence[OffsetCommitRequestTopic] = (),
        knows_group_id_not_found: bool = False,  # what the version implies
        uses_topic_ids: bool = False,  # what the version implies
    ) -> None:
        self.group_id = group_id
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.retention_time_ms = retention_time_ms
        self.topics = topics
        self.knows_group_id_not_found = knows_group_id_not_found
        self.uses_topic_ids = uses_topic_ids


class OffsetCommitResponsePartition(Message):
    """Part of the response."""

    __slots__ = ("partition_index", "error_code")
    SCHEMA = (
        (2, 10, "partition_index", "int32"),
        (2, 10, "error_code", "int16"),
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class OffsetCommitResponseTopic(Message):
    """Part of the response."""

    __slots__ = ("topic_id", "name", "partitions")
    SCHEMA = (
        (10, 10, "topic_id", "uuid"),
        (2, 9, "name", "string"),
        (2, 10, "partitions", "[]OffsetCommitResponsePartition"),
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_ID,
        name: str = "",
        partitions: Sequence[OffsetCommitResponsePartition] = (),
    ) -> None:
        self.topic_id = topic_id
        self.name = name
        self.partitions = partitions


class OffsetCommitResponse(Message):
    """OffsetCommit, the response."""

    __slots__ = ("throttle_time_ms", "topics")
    SCHEMA = (
        (3, 10, "throttle_time_ms", "int32"),
        (2, 10, "topics", "[]OffsetCommitResponseTopic"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[OffsetCommitResponseTopic] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
