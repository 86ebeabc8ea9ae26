"""DescribeTopicPartitions (key 75), versions 0 to 0 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request
from klamm.protocol.types import ZERO_ID


class TopicRequest(Message):
    """Part of the request."""

    __slots__ = ("name",)
    SCHEMA = ((0, 0, "name", "string"),)

    def __init__(
        self,
        name: str = "",
    ) -> None:
        self.name = name


class Cursor(Message):
    """Part of the request."""

    __slots__ = ("topic_name", "partition_index")
    SCHEMA = (
        (0, 0, "topic_name", "string"),
        (0, 0, "partition_index", "int32"),
    )

    def __init__(
        self,
        topic_name: str = "",
        partition_index: int = 0,
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index


class DescribeTopicPartitionsRequest(Request["DescribeTopicPartitionsResponse"]):
    """DescribeTopicPartitions, the request."""

    __slots__ = ("topics", "response_partition_limit", "cursor")
    SCHEMA = (
        (0, 0, "topics", "[]TopicRequest"),
        (0, 0, "response_partition_limit", "int32"),
        (0, 0, "cursor", "Cursor?"),
    )

    def __init__(
        self,
        topics: Sequence[TopicRequest] = (),
        response_partition_limit: int = 2000,
        cursor: Cursor | None = None,
    ) -> None:
        self.topics = topics
        self.response_partition_limit = response_partition_limit
        self.cursor = cursor


class DescribeTopicPartitionsResponsePartition(Message):
    """Part of the response."""

    __slots__ = (
        "error_code",
        "partition_index",
        "leader_id",
        "leader_epoch",
        "replica_nodes",
        "isr_nodes",
        "eligible_leader_replicas",
        "last_known_elr",
        "offline_replicas",
    )
    SCHEMA = (
        (0, 0, "error_code", "int16"),
        (0, 0, "partition_index", "int32"),
        (0, 0, "leader_id", "int32"),
        (0, 0, "leader_epoch", "int32"),
        (0, 0, "replica_nodes", "[]int32"),
        (0, 0, "isr_nodes", "[]int32"),
        (0, 0, "eligible_leader_replicas", "[]int32?"),
        (0, 0, "last_known_elr", "[]int32?"),
        (0, 0, "offline_replicas", "[]int32"),
    )

    def __init__(
        self,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: Sequence[int] = (),
        isr_nodes: Sequence[int] = (),
        eligible_leader_replicas: Sequence[int] | None = None,
        last_known_elr: Sequence[int] | None = None,
        offline_replicas: Sequence[int] = (),
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = replica_nodes
        self.isr_nodes = isr_nodes
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr
        self.offline_replicas = offline_replicas


class DescribeTopicPartitionsResponseTopic(Message):
    """Part of the response."""

    __slots__ = ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations")
    SCHEMA = (
        (0, 0, "error_code", "int16"),
        (0, 0, "name", "string?"),
        (0, 0, "topic_id", "uuid"),
        (0, 0, "is_internal", "bool"),
        (0, 0, "partitions", "[]DescribeTopicPartitionsResponsePartition"),
        (0, 0, "topic_authorized_operations", "int32"),
    )

    def __init__(
        self,
        error_code: int = 0,
        name: str | None = None,
        topic_id: bytes = ZERO_ID,
        is_internal: bool = False,
        partitions: Sequence[DescribeTopicPartitionsResponsePartition] = (),
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = partitions
        self.topic_authorized_operations = topic_authorized_operations


class DescribeTopicPartitionsResponse(Message):
    """DescribeTopicPartitions, the response."""

    __slots__ = ("throttle_time_ms", "topics", "next_cursor")
    SCHEMA = (
        (0, 0, "throttle_time_ms", "int32"),
        (0, 0, "topics", "[]DescribeTopicPartitionsResponseTopic"),
        (0, 0, "next_cursor", "Cursor?"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[DescribeTopicPartitionsResponseTopic] = (),
        next_cursor: Cursor | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
        self.next_cursor = next_cursor
