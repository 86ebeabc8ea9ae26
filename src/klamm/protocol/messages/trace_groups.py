"""TraceGroups (key 20001), version 0: an API of klamm's own, so not made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class TraceGroupsRequest(Request["TraceGroupsResponse"]):
    """TraceGroups, the request."""

    __slots__ = ("groups", "after")
    SCHEMA = (
        (0, 0, "groups", "[]string"),
        (0, 0, "after", "int64"),
    )

    def __init__(
        self,
        groups: Sequence[str] = (),
        after: int = -1,  # the number of the last entry that the client has; -1: from now on
    ) -> None:
        self.groups = groups
        self.after = after


class TracedGroup(Message):
    """Part of the response."""

    __slots__ = ("error_code", "error_message", "group_id", "content")
    SCHEMA = (
        (0, 0, "error_code", "int16"),
        (0, 0, "error_message", "string?"),
        (0, 0, "group_id", "string"),
        (0, 0, "content", "bytes"),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        content: bytes = b"",  # JSON: it is for people and for tools of this version
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.content = content


class TraceGroupsResponse(Message):
    """TraceGroups, the response."""

    __slots__ = ("throttle_time_ms", "groups")
    SCHEMA = (
        (0, 0, "throttle_time_ms", "int32"),
        (0, 0, "groups", "[]TracedGroup"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        groups: Sequence[TracedGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = groups
