"""LeaveGroup (key 13), versions 0 to 5 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class MemberIdentity(Message):
    """Part of the request."""

    __slots__ = ("member_id", "group_instance_id", "reason")
    SCHEMA = (
        (3, 5, "member_id", "string"),
        (3, 5, "group_instance_id", "string?"),
        (5, 5, "reason", "string?"),
    )

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,
        reason: str | None = None,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.reason = reason


class LeaveGroupRequest(Request["LeaveGroupResponse"]):
    """LeaveGroup, the request."""

    __slots__ = ("group_id", "members", "member_id", "is_single_member")
    SCHEMA = (
        (0, 5, "group_id", "string"),
        (3, 5, "members", "[]MemberIdentity"),
        (0, 2, "member_id", "string"),
    )

    def __init__(
        self,
        group_id: str = "",
        members: Sequence[MemberIdentity] = (),
        member_id: str = "",
        is_single_member: bool = False,  # what the version implies
    ) -> None:
        self.group_id = group_id
        self.members = members
        self.member_id = member_id
        self.is_single_member = is_single_member


class MemberResponse(Message):
    """Part of the response."""

    __slots__ = ("member_id", "group_instance_id", "error_code")
    SCHEMA = (
        (3, 5, "member_id", "string"),
        (3, 5, "group_instance_id", "string?"),
        (3, 5, "error_code", "int16"),
    )

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,
        error_code: int = 0,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.error_code = error_code


class LeaveGroupResponse(Message):
    """LeaveGroup, the response."""

    __slots__ = ("throttle_time_ms", "error_code", "members")
    SCHEMA = (
        (1, 5, "throttle_time_ms", "int32"),
        (0, 5, "error_code", "int16"),
        (3, 5, "members", "[]MemberResponse"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        members: Sequence[MemberResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.members = members
