"""JoinGroup (key 11), versions 0 to 9 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class JoinGroupRequestProtocol:
    """Part of the request."""

    name: str = ""
    metadata: bytes = b""


@dataclass(slots=True)
class JoinGroupRequest(Request["JoinGroupResponse"]):
    """JoinGroup, the request."""

    group_id: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str = ""
    protocols: Sequence[JoinGroupRequestProtocol] = ()
    reason: str | None = None
    must_know_member_id: bool = False  # what the version implies
    knows_skip_assignment: bool = False  # what the version implies
    knows_protocol_type: bool = False  # what the version implies
    has_rebalance_timeout: bool = False  # what the version implies


@dataclass(slots=True)
class JoinGroupResponseMember:
    """Part of the response."""

    member_id: str = ""
    group_instance_id: str | None = None
    metadata: bytes = b""


@dataclass(slots=True)
class JoinGroupResponse:
    """JoinGroup, the response."""

    throttle_time_ms: int = 0
    error_code: int = 0
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: Sequence[JoinGroupResponseMember] = ()
