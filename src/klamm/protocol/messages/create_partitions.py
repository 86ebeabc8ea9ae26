"""CreatePartitions (key 37), versions 0 to 3 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class CreatePartitionsAssignment(Message):
    """Part of the request."""

    __slots__ = ("broker_ids",)
    SCHEMA = ((0, 3, "broker_ids", "[]int32"),)

    def __init__(
        self,
        broker_ids: Sequence[int] = (),
    ) -> None:
        self.broker_ids = broker_ids


class CreatePartitionsTopic(Message):
    """Part of the request."""

    __slots__ = ("name", "count", "assignments")
    SCHEMA = (
        (0, 3, "name", "string"),
        (0, 3, "count", "int32"),
        (0, 3, "assignments", "[]CreatePartitionsAssignment?"),
    )

    def __init__(
        self,
        name: str = "",
        count: int = 0,
        assignments: Sequence[CreatePartitionsAssignment] | None = (),
    ) -> None:
        self.name = name
        self.count = count
        self.assignments = assignments


class CreatePartitionsRequest(Request["CreatePartitionsResponse"]):
    """CreatePartitions, the request."""

    __slots__ = ("topics", "timeout_ms", "validate_only", "knows_throttling")
    SCHEMA = (
        (0, 3, "topics", "[]CreatePartitionsTopic"),
        (0, 3, "timeout_ms", "int32"),
        (0, 3, "validate_only", "bool"),
    )

    def __init__(
        self,
        topics: Sequence[CreatePartitionsTopic] = (),
        timeout_ms: int = 0,
        validate_only: bool = False,
        knows_throttling: bool = False,  # what the version implies
    ) -> None:
        self.topics = topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only
        self.knows_throttling = knows_throttling


class CreatePartitionsTopicResult(Message):
    """Part of the response."""

    __slots__ = ("name", "error_code", "error_message")
    SCHEMA = (
        (0, 3, "name", "string"),
        (0, 3, "error_code", "int16"),
        (0, 3, "error_message", "string?"),
    )

    def __init__(
        self,
        name: str = "",
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name = name
        self.error_code = error_code
        self.error_message = error_message


class CreatePartitionsResponse(Message):
    """CreatePartitions, the response."""

    __slots__ = ("throttle_time_ms", "results")
    SCHEMA = (
        (0, 3, "throttle_time_ms", "int32"),
        (0, 3, "results", "[]CreatePartitionsTopicResult"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: Sequence[CreatePartitionsTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results
