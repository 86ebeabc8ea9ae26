"""OffsetForLeaderEpoch (key 23), versions 2 to 4 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class OffsetForLeaderPartition(Message):
    """Part of the request."""

    __slots__ = ("partition", "current_leader_epoch", "leader_epoch")
    SCHEMA = (
        (2, 4, "partition", "int32"),
        (2, 4, "current_leader_epoch", "int32"),
        (2, 4, "leader_epoch", "int32"),
    )

    def __init__(
        self,
        partition: int = 0,
        current_leader_epoch: int = -1,
        leader_epoch: int = 0,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.leader_epoch = leader_epoch


class OffsetForLeaderTopic(Message):
    """Part of the request."""

    __slots__ = ("topic", "partitions")
    SCHEMA = (
        (2, 4, "topic", "string"),
        (2, 4, "partitions", "[]OffsetForLeaderPartition"),
    )

    def __init__(
        self,
        topic: str = "",
        partitions: Sequence[OffsetForLeaderPartition] = (),
    ) -> None:
        self.topic = topic
        self.partitions = partitions


class OffsetForLeaderEpochRequest(Request["OffsetForLeaderEpochResponse"]):
    """OffsetForLeaderEpoch, the request."""

    __slots__ = ("replica_id", "topics")
    SCHEMA = (
        (3, 4, "replica_id", "int32"),
        (2, 4, "topics", "[]OffsetForLeaderTopic"),
    )

    def __init__(
        self,
        replica_id: int = -2,
        topics: Sequence[OffsetForLeaderTopic] = (),
    ) -> None:
        self.replica_id = replica_id
        self.topics = topics


class EpochEndOffset(Message):
    """Part of the response."""

    __slots__ = ("error_code", "partition", "leader_epoch", "end_offset")
    SCHEMA = (
        (2, 4, "error_code", "int16"),
        (2, 4, "partition", "int32"),
        (2, 4, "leader_epoch", "int32"),
        (2, 4, "end_offset", "int64"),
    )

    def __init__(
        self,
        error_code: int = 0,
        partition: int = 0,
        leader_epoch: int = -1,
        end_offset: int = -1,
    ) -> None:
        self.error_code = error_code
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.end_offset = end_offset


class OffsetForLeaderTopicResult(Message):
    """Part of the response."""

    __slots__ = ("topic", "partitions")
    SCHEMA = (
        (2, 4, "topic", "string"),
        (2, 4, "partitions", "[]EpochEndOffset"),
    )

    def __init__(
        self,
        topic: str = "",
        partitions: Sequence[EpochEndOffset] = (),
    ) -> None:
        self.topic = topic
        self.partitions = partitions


class OffsetForLeaderEpochResponse(Message):
    """OffsetForLeaderEpoch, the response."""

    __slots__ = ("throttle_time_ms", "topics")
    SCHEMA = (
        (2, 4, "throttle_time_ms", "int32"),
        (2, 4, "topics", "[]OffsetForLeaderTopicResult"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[OffsetForLeaderTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
