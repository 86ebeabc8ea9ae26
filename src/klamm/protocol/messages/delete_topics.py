"""DeleteTopics (key 20), versions 1 to 6 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request
from klamm.protocol.types import ZERO_ID


@dataclass(slots=True)
class DeleteTopicState:
    """Part of the request."""

    name: str | None = None
    topic_id: bytes = ZERO_ID


@dataclass(slots=True)
class DeleteTopicsRequest(Request["DeleteTopicsResponse"]):
    """DeleteTopics, the request."""

    topics: Sequence[DeleteTopicState] = ()
    topic_names: Sequence[str] = ()
    timeout_ms: int = 0
    knows_deletion_disabled: bool = False  # what the version implies


@dataclass(slots=True)
class DeletableTopicResult:
    """Part of the response."""

    name: str | None = None
    topic_id: bytes = ZERO_ID
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True)
class DeleteTopicsResponse:
    """DeleteTopics, the response."""

    throttle_time_ms: int = 0
    responses: Sequence[DeletableTopicResult] = ()
