"""AlterPartitionReassignments (key 45), versions 0 to 1 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class ReassignablePartition(Message):
    """Part of the request."""

    __slots__ = ("partition_index", "replicas")
    SCHEMA = (
        (0, 1, "partition_index", "int32"),
        (0, 1, "replicas", "[]int32?"),
    )

    def __init__(
        self,
        partition_index: int = 0,
        replicas: Sequence[int] | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.replicas = replicas


class ReassignableTopic(Message):
    """Part of the request."""

    __slots__ = ("name", "partitions")
    SCHEMA = (
        (0, 1, "name", "string"),
        (0, 1, "partitions", "[]ReassignablePartition"),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[ReassignablePartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class AlterPartitionReassignmentsRequest(Request["AlterPartitionReassignmentsResponse"]):
    """AlterPartitionReassignments, the request."""

    __slots__ = ("timeout_ms", "allow_replication_factor_change", "topics")
    SCHEMA = (
        (0, 1, "timeout_ms", "int32"),
        (1, 1, "allow_replication_factor_change", "bool"),
        (0, 1, "topics", "[]ReassignableTopic"),
    )

    def __init__(
        self,
        timeout_ms: int = 60000,
        allow_replication_factor_change: bool = True,
        topics: Sequence[ReassignableTopic] = (),
    ) -> None:
        self.timeout_ms = timeout_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.topics = topics


class ReassignablePartitionResponse(Message):
    """Part of the response."""

    __slots__ = ("partition_index", "error_code", "error_message")
    SCHEMA = (
        (0, 1, "partition_index", "int32"),
        (0, 1, "error_code", "int16"),
        (0, 1, "error_message", "string?"),
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message


class ReassignableTopicResponse(Message):
    """Part of the response."""

    __slots__ = ("name", "partitions")
    SCHEMA = (
        (0, 1, "name", "string"),
        (0, 1, "partitions", "[]ReassignablePartitionResponse"),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[ReassignablePartitionResponse] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class AlterPartitionReassignmentsResponse(Message):
    """AlterPartitionReassignments, the response."""

    __slots__ = (
        "throttle_time_ms",
        "allow_replication_factor_change",
        "error_code",
        "error_message",
        "responses",
    )
    SCHEMA = (
        (0, 1, "throttle_time_ms", "int32"),
        (1, 1, "allow_replication_factor_change", "bool"),
        (0, 1, "error_code", "int16"),
        (0, 1, "error_message", "string?"),
        (0, 1, "responses", "[]ReassignableTopicResponse"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        allow_replication_factor_change: bool = True,
        error_code: int = 0,
        error_message: str | None = None,
        responses: Sequence[ReassignableTopicResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.error_code = error_code
        self.error_message = error_message
        self.responses = responses
