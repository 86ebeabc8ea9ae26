"""ListGroups (key 16), versions 0 to 5 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class ListGroupsRequest(Request["ListGroupsResponse"]):
    """ListGroups, the request."""

    __slots__ = ("states_filter", "types_filter")
    SCHEMA = (
        (4, 5, "states_filter", "[]string"),
        (5, 5, "types_filter", "[]string"),
    )

    def __init__(
        self,
        states_filter: Sequence[str] = (),
        types_filter: Sequence[str] = (),
    ) -> None:
        self.states_filter = states_filter
        self.types_filter = types_filter


class ListedGroup(Message):
    """Part of the response."""

    __slots__ = ("group_id", "protocol_type", "group_state", "group_type")
    SCHEMA = (
        (0, 5, "group_id", "string"),
        (0, 5, "protocol_type", "string"),
        (4, 5, "group_state", "string"),
        (5, 5, "group_type", "string"),
    )

    def __init__(
        self,
        group_id: str = "",
        protocol_type: str = "",
        group_state: str = "",
        group_type: str = "",
    ) -> None:
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.group_state = group_state
        self.group_type = group_type


class ListGroupsResponse(Message):
    """ListGroups, the response."""

    __slots__ = ("throttle_time_ms", "error_code", "groups")
    SCHEMA = (
        (1, 5, "throttle_time_ms", "int32"),
        (0, 5, "error_code", "int16"),
        (0, 5, "groups", "[]ListedGroup"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        groups: Sequence[ListedGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.groups = groups
