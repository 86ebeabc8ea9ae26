"""DeleteGroups (key 42), versions 0 to 2 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class DeleteGroupsRequest(Request["DeleteGroupsResponse"]):
    """DeleteGroups, the request."""

    __slots__ = ("groups_names",)
    SCHEMA = ((0, 2, "groups_names", "[]string"),)

    def __init__(
        self,
        groups_names: Sequence[str] = (),
    ) -> None:
        self.groups_names = groups_names


class DeletableGroupResult(Message):
    """Part of the response."""

    __slots__ = ("group_id", "error_code")
    SCHEMA = (
        (0, 2, "group_id", "string"),
        (0, 2, "error_code", "int16"),
    )

    def __init__(
        self,
        group_id: str = "",
        error_code: int = 0,
    ) -> None:
        self.group_id = group_id
        self.error_code = error_code


class DeleteGroupsResponse(Message):
    """DeleteGroups, the response."""

    __slots__ = ("throttle_time_ms", "results")
    SCHEMA = (
        (0, 2, "throttle_time_ms", "int32"),
        (0, 2, "results", "[]DeletableGroupResult"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: Sequence[DeletableGroupResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results
