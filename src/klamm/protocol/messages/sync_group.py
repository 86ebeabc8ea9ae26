"""SyncGroup (key 14), versions 0 to 5 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class SyncGroupRequestAssignment:
    """Part of the request."""

    member_id: str = ""
    assignment: bytes = b""


@dataclass(slots=True)
class SyncGroupRequest(Request["SyncGroupResponse"]):
    """SyncGroup, the request."""

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Sequence[SyncGroupRequestAssignment] = ()
    must_name_protocol: bool = False  # what the version implies


@dataclass(slots=True)
class SyncGroupResponse:
    """SyncGroup, the response."""

    throttle_time_ms: int = 0
    error_code: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""
