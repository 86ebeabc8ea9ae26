"""InspectGroups (key 20000), version 0: an API of klamm's own, so not made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class InspectGroupsRequest(Request["InspectGroupsResponse"]):
    """InspectGroups, the request."""

    __slots__ = ("groups",)
    SCHEMA = ((0, 0, "groups", "[]string"),)

    def __init__(
        self,
        groups: Sequence[str] = (),
    ) -> None:
        self.groups = groups


class InspectedGroup(Message):
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


class InspectGroupsResponse(Message):
    """InspectGroups, the response."""

    __slots__ = ("throttle_time_ms", "groups")
    SCHEMA = (
        (0, 0, "throttle_time_ms", "int32"),
        (0, 0, "groups", "[]InspectedGroup"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        groups: Sequence[InspectedGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = groups
