"""Heartbeat (key 12), versions 0 to 4 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class HeartbeatRequest(Request["HeartbeatResponse"]):
    """Heartbeat, the request."""

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None


@dataclass(slots=True)
class HeartbeatResponse:
    """Heartbeat, the response."""

    throttle_time_ms: int = 0
    error_code: int = 0
