"""ListGroups (key 16), versions 0 to 5 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class ListGroupsRequest(Request["ListGroupsResponse"]):
    """ListGroups, the request."""

    states_filter: Sequence[str] = ()
    types_filter: Sequence[str] = ()


@dataclass(slots=True)
class ListedGroup:
    """Part of the response."""

    group_id: str = ""
    protocol_type: str = ""
    group_state: str = ""
    group_type: str = ""


@dataclass(slots=True)
class ListGroupsResponse:
    """ListGroups, the response."""

    throttle_time_ms: int = 0
    error_code: int = 0
    groups: Sequence[ListedGroup] = ()
