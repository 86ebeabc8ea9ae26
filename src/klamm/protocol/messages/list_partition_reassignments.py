"""ListPartitionReassignments (key 46), versions 0 to 0 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class ListPartitionReassignmentsTopics(Message):
    """Part of the request."""

    __slots__ = ("name", "partition_indexes")
    SCHEMA = (
        (0, 0, "name", "string"),
        (0, 0, "partition_indexes", "[]int32"),
    )

    def __init__(
        self,
        name: str = "",
        partition_indexes: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.partition_indexes = partition_indexes


class ListPartitionReassignmentsRequest(Request["ListPartitionReassignmentsResponse"]):
    """ListPartitionReassignments, the request."""

    __slots__ = ("timeout_ms", "topics")
    SCHEMA = (
        (0, 0, "timeout_ms", "int32"),
        (0, 0, "topics", "[]ListPartitionReassignmentsTopics?"),
    )

    def __init__(
        self,
        timeout_ms: int = 60000,
        topics: Sequence[ListPartitionReassignmentsTopics] | None = (),
    ) -> None:
        self.timeout_ms = timeout_ms
        self.topics = topics


class OngoingPartitionReassignment(Message):
    """Part of the response."""

    __slots__ = ("partition_index", "replicas", "adding_replicas", "removing_replicas")
    SCHEMA = (
        (0, 0, "partition_index", "int32"),
        (0, 0, "replicas", "[]int32"),
        (0, 0, "adding_replicas", "[]int32"),
        (0, 0, "removing_replicas", "[]int32"),
    )

    def __init__(
        self,
        partition_index: int = 0,
        replicas: Sequence[int] = (),
        adding_replicas: Sequence[int] = (),
        removing_replicas: Sequence[int] = (),
    ) -> None:
        self.partition_index = partition_index
        self.replicas = replicas
        self.adding_replicas = adding_replicas
        self.removing_replicas = removing_replicas


class OngoingTopicReassignment(Message):
    """Part of the response."""

    __slots__ = ("name", "partitions")
    SCHEMA = (
        (0, 0, "name", "string"),
        (0, 0, "partitions", "[]OngoingPartitionReassignment"),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[OngoingPartitionReassignment] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class ListPartitionReassignmentsResponse(Message):
    """ListPartitionReassignments, the response."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "topics")
    SCHEMA = (
        (0, 0, "throttle_time_ms", "int32"),
        (0, 0, "error_code", "int16"),
        (0, 0, "error_message", "string?"),
        (0, 0, "topics", "[]OngoingTopicReassignment"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        topics: Sequence[OngoingTopicReassignment] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.topics = topics
