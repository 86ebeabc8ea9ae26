"""LeaveGroup (key 13), versions 0 to 5 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class MemberIdentity:
    """Part of the request."""

    member_id: str = ""
    group_instance_id: str | None = None
    reason: str | None = None


@dataclass(slots=True)
class LeaveGroupRequest(Request["LeaveGroupResponse"]):
    """LeaveGroup, the request."""

    group_id: str = ""
    members: Sequence[MemberIdentity] = ()
    member_id: str = ""
    is_single_member: bool = False  # what the version implies


@dataclass(slots=True)
class MemberResponse:
    """Part of the response."""

    member_id: str = ""
    group_instance_id: str | None = None
    error_code: int = 0


@dataclass(slots=True)
class LeaveGroupResponse:
    """LeaveGroup, the response."""

    throttle_time_ms: int = 0
    error_code: int = 0
    members: Sequence[MemberResponse] = ()
