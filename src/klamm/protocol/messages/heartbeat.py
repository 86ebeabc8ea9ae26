"""Heartbeat (key 12), versions 0 to 4 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from klamm.protocol.message import Message, Request


class HeartbeatRequest(Request["HeartbeatResponse"]):
    """Heartbeat, the request."""

    __slots__ = ("group_id", "generation_id", "member_id", "group_instance_id")
    SCHEMA = (
        (0, 4, "group_id", "string"),
        (0, 4, "generation_id", "int32"),
        (0, 4, "member_id", "string"),
        (3, 4, "group_instance_id", "string?"),
    )

    def __init__(
        self,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id


class HeartbeatResponse(Message):
    """Heartbeat, the response."""

    __slots__ = ("throttle_time_ms", "error_code")
    SCHEMA = (
        (1, 4, "throttle_time_ms", "int32"),
        (0, 4, "error_code", "int16"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
