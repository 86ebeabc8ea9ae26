"""FindCoordinator (key 10), versions 0 to 6 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class FindCoordinatorRequest(Request["FindCoordinatorResponse"]):
    """FindCoordinator, the request."""

    key: str = ""
    key_type: int = 0
    coordinator_keys: Sequence[str] = ()
    is_batched: bool = False  # what the version implies


@dataclass(slots=True)
class Coordinator:
    """Part of the response."""

    key: str = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True)
class FindCoordinatorResponse:
    """FindCoordinator, the response."""

    throttle_time_ms: int = 0
    coordinators: Sequence[Coordinator] = ()
    error_code: int = 0
    error_message: str | None = None
    node_id: int = 0
    host: str = ""
    port: int = 0
