"""ConsumerGroupHeartbeat (key 68), versions 0 to 1 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request
from klamm.protocol.types import ZERO_ID


class TopicPartitions(Message):
    """Part of the request."""

    __slots__ = ("topic_id", "partitions")
    SCHEMA = (
        (0, 1, "topic_id", "uuid"),
        (0, 1, "partitions", "[]int32"),
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_ID,
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic_id = topic_id
        self.partitions = partitions


class ConsumerGroupHeartbeatRequest(Request["ConsumerGroupHeartbeatResponse"]):
    """ConsumerGroupHeartbeat, the request."""

    __slots__ = (
        "group_id",
        "member_id",
        "member_epoch",
        "instance_id",
        "rack_id",
        "rebalance_timeout_ms",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "server_assignor",
        "topic_partitions",
        "makes_member_id",
    )
    SCHEMA = (
        (0, 1, "group_id", "string"),
        (0, 1, "member_id", "string"),
        (0, 1, "member_epoch", "int32"),
        (0, 1, "instance_id", "string?"),
        (0, 1, "rack_id", "string?"),
        (0, 1, "rebalance_timeout_ms", "int32"),
        (0, 1, "subscribed_topic_names", "[]string?"),
        (1, 1, "subscribed_topic_regex", "string?"),
        (0, 1, "server_assignor", "string?"),
        (0, 1, "topic_partitions", "[]TopicPartitions?"),
    )

    def __init__(
        self,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        subscribed_topic_names: Sequence[str] | None = None,
        subscribed_topic_regex: str | None = None,
        server_assignor: str | None = None,
        topic_partitions: Sequence[TopicPartitions] | None = (),
        makes_member_id: bool = False,  # what the version implies
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.subscribed_topic_names = subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.server_assignor = server_assignor
        self.topic_partitions = topic_partitions
        self.makes_member_id = makes_member_id


class Assignment(Message):
    """Part of the response."""

    __slots__ = ("topic_partitions",)
    SCHEMA = ((0, 1, "topic_partitions", "[]TopicPartitions"),)

    def __init__(
        self,
        topic_partitions: Sequence[TopicPartitions] = (),
    ) -> None:
        self.topic_partitions = topic_partitions


class ConsumerGroupHeartbeatResponse(Message):
    """ConsumerGroupHeartbeat, the response."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "member_id",
        "member_epoch",
        "heartbeat_interval_ms",
        "assignment",
    )
    SCHEMA = (
        (0, 1, "throttle_time_ms", "int32"),
        (0, 1, "error_code", "int16"),
        (0, 1, "error_message", "string?"),
        (0, 1, "member_id", "string?"),
        (0, 1, "member_epoch", "int32"),
        (0, 1, "heartbeat_interval_ms", "int32"),
        (0, 1, "assignment", "Assignment?"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str | None = None,
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        assignment: Assignment | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.assignment = assignment
