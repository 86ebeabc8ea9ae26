"""DeleteGroups (key 42), versions 0 to 2 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class DeleteGroupsRequest(Request["DeleteGroupsResponse"]):
    """DeleteGroups, the request."""

    groups_names: Sequence[str] = ()


@dataclass(slots=True)
class DeletableGroupResult:
    """Part of the response."""

    group_id: str = ""
    error_code: int = 0


@dataclass(slots=True)
class DeleteGroupsResponse:
    """DeleteGroups, the response."""

    throttle_time_ms: int = 0
    results: Sequence[DeletableGroupResult] = ()
