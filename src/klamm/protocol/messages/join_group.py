"""JoinGroup (key 11), versions 0 to 9 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class JoinGroupRequestProtocol(Message):
    """Part of the request."""

    __slots__ = ("name", "metadata")
    SCHEMA = (
        (0, 9, "name", "string"),
        (0, 9, "metadata", "bytes"),
    )

    def __init__(
        self,
        name: str = "",
        metadata: bytes = b"",
    ) -> None:
        self.name = name
        self.metadata = metadata


class JoinGroupRequest(Request["JoinGroupResponse"]):
    """JoinGroup, the request."""

    __slots__ = (
        "group_id",
        "session_timeout_ms",
        "rebalance_timeout_ms",
        "member_id",
        "group_instance_id",
        "protocol_type",
        "protocols",
        "reason",
        "must_know_member_id",
        "knows_skip_assignment",
        "knows_protocol_type",
        "has_rebalance_timeout",
    )
    SCHEMA = (
        (0, 9, "group_id", "string"),
        (0, 9, "session_timeout_ms", "int32"),
        (1, 9, "rebalance_timeout_ms", "int32"),
        (0, 9, "member_id", "string"),
        (5, 9, "group_instance_id", "string?"),
        (0, 9, "protocol_type", "string"),
        (0, 9, "protocols", "[]JoinGroupRequestProtocol"),
        (8, 9, "reason", "string?"),
    )

    def __init__(
        self,
        group_id: str = "",
        session_timeout_ms: int = 0,
        rebalance_timeout_ms: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str = "",
        protocols: Sequence[JoinGroupRequestProtocol] = (),
        reason: str | None = None,
        must_know_member_id: bool = False,  # what the version implies
        knows_skip_assignment: bool = False,  # what the version implies
        knows_protocol_type: bool = False,  # what the version implies
        has_rebalance_timeout: bool = False,  # what the version implies
    ) -> None:
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.reason = reason
        self.must_know_member_id = must_know_member_id
        self.knows_skip_assignment = knows_skip_assignment
        self.knows_protocol_type = knows_protocol_type
        self.has_rebalance_timeout = has_rebalance_timeout


class JoinGroupResponseMember(Message):
    """Part of the response."""

    __slots__ = ("member_id", "group_instance_id", "metadata")
    SCHEMA = (
        (0, 9, "member_id", "string"),
        (5, 9, "group_instance_id", "string?"),
        (0, 9, "metadata", "bytes"),
    )

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,
        metadata: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.metadata = metadata


class JoinGroupResponse(Message):
    """JoinGroup, the response."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "generation_id",
        "protocol_type",
        "protocol_name",
        "leader",
        "skip_assignment",
        "member_id",
        "members",
    )
    SCHEMA = (
        (2, 9, "throttle_time_ms", "int32"),
        (0, 9, "error_code", "int16"),
        (0, 9, "generation_id", "int32"),
        (7, 9, "protocol_type", "string?"),
        (0, 6, "protocol_name", "string"),
        (7, 9, "protocol_name", "string?"),
        (0, 9, "leader", "string"),
        (9, 9, "skip_assignment", "bool"),
        (0, 9, "member_id", "string"),
        (0, 9, "members", "[]JoinGroupResponseMember"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        generation_id: int = -1,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        leader: str = "",
        skip_assignment: bool = False,
        member_id: str = "",
        members: Sequence[JoinGroupResponseMember] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.skip_assignment = skip_assignment
        self.member_id = member_id
        self.members = members
