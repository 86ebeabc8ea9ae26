"""ListOffsets (key 2), versions 1 to 11 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class ListOffsetsPartition(Message):
    """Part of the request."""

    __slots__ = ("partition_index", "current_leader_epoch", "timestamp")
    SCHEMA = (
        (1, 11, "partition_index", "int32"),
        (4, 11, "current_leader_epoch", "int32"),
        (1, 11, "timestamp", "int64"),
    )

    def __init__(
        self,
        partition_index: int = 0,
        current_leader_epoch: int = -1,
        timestamp: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.current_leader_epoch = current_leader_epoch
        self.timestamp = timestamp


class ListOffsetsTopic(Message):
    """Part of the request."""

    __slots__ = ("name", "partitions")
    SCHEMA = (
        (1, 11, "name", "string"),
        (1, 11, "partitions", "[]ListOffsetsPartition"),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[ListOffsetsPartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class ListOffsetsRequest(Request["ListOffsetsResponse"]):
    """ListOffsets, the request."""

    __slots__ = (
        "replica_id",
        "isolation_level",
        "topics",
        "timeout_ms",
        "knows_max_timestamp",
        "knows_local_log_start",
        "knows_tiered_offset",
        "knows_pending_upload",
    )
    SCHEMA = (
        (1, 11, "replica_id", "int32"),
        (2, 11, "isolation_level", "int8"),
        (1, 11, "topics", "[]ListOffsetsTopic"),
        (10, 11, "timeout_ms", "int32"),
    )

    def __init__(
        self,
        replica_id: int = 0,
        isolation_level: int = 0,
        topics: Sequence[ListOffsetsTopic] = (),
        timeout_ms: int = 0,
        knows_max_timestamp: bool = False,  # what the version implies
        knows_local_log_start: bool = False,  # what the version implies
        knows_tiered_offset: bool = False,  # what the version implies
        knows_pending_upload: bool = False,  # what the version implies
    ) -> None:
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.topics = topics
        self.timeout_ms = timeout_ms
        self.knows_max_timestamp = knows_max_timestamp
        self.knows_local_log_start = knows_local_log_start
        self.knows_tiered_offset = knows_tiered_offset
        self.knows_pending_upload = knows_pending_upload


class ListOffsetsPartitionResponse(Message):
    """Part of the response."""

    __slots__ = ("partition_index", "error_code", "timestamp", "offset", "leader_epoch")
    SCHEMA = (
        (1, 11, "partition_index", "int32"),
        (1, 11, "error_code", "int16"),
        (1, 11, "timestamp", "int64"),
        (1, 11, "offset", "int64"),
        (4, 11, "leader_epoch", "int32"),
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        timestamp: int = -1,
        offset: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.timestamp = timestamp
        self.offset = offset
        self.leader_epoch = leader_epoch


class ListOffsetsTopicResponse(Message):
    """Part of the response."""

    __slots__ = ("name", "partitions")
    SCHEMA = (
        (1, 11, "name", "string"),
        (1, 11, "partitions", "[]ListOffsetsPartitionResponse"),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[ListOffsetsPartitionResponse] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class ListOffsetsResponse(Message):
    """ListOffsets, the response."""

    __slots__ = ("throttle_time_ms", "topics")
    SCHEMA = (
        (2, 11, "throttle_time_ms", "int32"),
        (1, 11, "topics", "[]ListOffsetsTopicResponse"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[ListOffsetsTopicResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
