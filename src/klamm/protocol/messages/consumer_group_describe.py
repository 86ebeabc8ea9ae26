"""ConsumerGroupDescribe (key 69), versions 0 to 1 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request
from klamm.protocol.types import ZERO_ID


class ConsumerGroupDescribeRequest(Request["ConsumerGroupDescribeResponse"]):
    """ConsumerGroupDescribe, the request."""

    __slots__ = ("group_ids", "include_authorized_operations")
    SCHEMA = (
        (0, 1, "group_ids", "[]string"),
        (0, 1, "include_authorized_operations", "bool"),
    )

    def __init__(
        self,
        group_ids: Sequence[str] = (),
        include_authorized_operations: bool = False,
    ) -> None:
        self.group_ids = group_ids
        self.include_authorized_operations = include_authorized_operations


class TopicPartitions(Message):
    """Part of the response."""

    __slots__ = ("topic_id", "topic_name", "partitions")
    SCHEMA = (
        (0, 1, "topic_id", "uuid"),
        (0, 1, "topic_name", "string"),
        (0, 1, "partitions", "[]int32"),
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_ID,
        topic_name: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions = partitions


class Assignment(Message):
    """Part of the response."""

    __slots__ = ("topic_partitions",)
    SCHEMA = ((0, 1, "topic_partitions", "[]TopicPartitions"),)

    def __init__(
        self,
        topic_partitions: Sequence[TopicPartitions] = (),
    ) -> None:
        self.topic_partitions = topic_partitions


class Member(Message):
    """Part of the response."""

    __slots__ = (
        "member_id",
        "instance_id",
        "rack_id",
        "member_epoch",
        "client_id",
        "client_host",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "assignment",
        "target_assignment",
        "member_type",
    )
    SCHEMA = (
        (0, 1, "member_id", "string"),
        (0, 1, "instance_id", "string?"),
        (0, 1, "rack_id", "string?"),
        (0, 1, "member_epoch", "int32"),
        (0, 1, "client_id", "string"),
        (0, 1, "client_host", "string"),
        (0, 1, "subscribed_topic_names", "[]string"),
        (0, 1, "subscribed_topic_regex", "string?"),
        (0, 1, "assignment", "Assignment"),
        (0, 1, "target_assignment", "Assignment"),
        (1, 1, "member_type", "int8"),
    )

    def __init__(
        self,
        member_id: str = "",
        instance_id: str | None = None,
        rack_id: str | None = None,
        member_epoch: int = 0,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: Sequence[str] = (),
        subscribed_topic_regex: str | None = None,
        assignment: Assignment | None = None,
        target_assignment: Assignment | None = None,
        member_type: int = -1,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.member_epoch = member_epoch
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.assignment = assignment
        self.target_assignment = target_assignment
        self.member_type = member_type


class DescribedGroup(Message):
    """Part of the response."""

    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "group_epoch",
        "assignment_epoch",
        "assignor_name",
        "members",
        "authorized_operations",
    )
    SCHEMA = (
        (0, 1, "error_code", "int16"),
        (0, 1, "error_message", "string?"),
        (0, 1, "group_id", "string"),
        (0, 1, "group_state", "string"),
        (0, 1, "group_epoch", "int32"),
        (0, 1, "assignment_epoch", "int32"),
        (0, 1, "assignor_name", "string"),
        (0, 1, "members", "[]Member"),
        (0, 1, "authorized_operations", "int32"),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        assignor_name: str = "",
        members: Sequence[Member] = (),
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.assignor_name = assignor_name
        self.members = members
        self.authorized_operations = authorized_operations


class ConsumerGroupDescribeResponse(Message):
    """ConsumerGroupDescribe, the response."""

    __slots__ = ("throttle_time_ms", "groups")
    SCHEMA = (
        (0, 1, "throttle_time_ms", "int32"),
        (0, 1, "groups", "[]DescribedGroup"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        groups: Sequence[DescribedGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = groups
