"""SyncGroup (key 14), versions 0 to 5 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class SyncGroupRequestAssignment(Message):
    """Part of the request."""

    __slots__ = ("member_id", "assignment")
    SCHEMA = (
        (0, 5, "member_id", "string"),
        (0, 5, "assignment", "bytes"),
    )

    def __init__(
        self,
        member_id: str = "",
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.assignment = assignment


class SyncGroupRequest(Request["SyncGroupResponse"]):
    """SyncGroup, the request."""

    __slots__ = (
        "group_id",
        "generation_id",
        "member_id",
        "group_instance_id",
        "protocol_type",
        "protocol_name",
        "assignments",
        "must_name_protocol",
    )
    SCHEMA = (
        (0, 5, "group_id", "string"),
        (0, 5, "generation_id", "int32"),
        (0, 5, "member_id", "string"),
        (3, 5, "group_instance_id", "string?"),
        (5, 5, "protocol_type", "string?"),
        (5, 5, "protocol_name", "string?"),
        (0, 5, "assignments", "[]SyncGroupRequestAssignment"),
    )

    def __init__(
        self,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: Sequence[SyncGroupRequestAssignment] = (),
        must_name_protocol: bool = False,  # what the version implies
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignments = assignments
        self.must_name_protocol = must_name_protocol


class SyncGroupResponse(Message):
    """SyncGroup, the response."""

    __slots__ = ("throttle_time_ms", "error_code", "protocol_type", "protocol_name", "assignment")
    SCHEMA = (
        (1, 5, "throttle_time_ms", "int32"),
        (0, 5, "error_code", "int16"),
        (5, 5, "protocol_type", "string?"),
        (5, 5, "protocol_name", "string?"),
        (0, 5, "assignment", "bytes"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignment: bytes = b"",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignment = assignment
