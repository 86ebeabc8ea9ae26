"""CreatePartitions (key 37), versions 0 to 3 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class CreatePartitionsAssignment:
    """Part of the request."""

    broker_ids: Sequence[int] = ()


@dataclass(slots=True)
class CreatePartitionsTopic:
    """Part of the request."""

    name: str = ""
    count: int = 0
    assignments: Sequence[CreatePartitionsAssignment] | None = ()


@dataclass(slots=True)
class CreatePartitionsRequest(Request["CreatePartitionsResponse"]):
    """CreatePartitions, the request."""

    topics: Sequence[CreatePartitionsTopic] = ()
    timeout_ms: int = 0
    validate_only: bool = False


@dataclass(slots=True)
class CreatePartitionsTopicResult:
    """Part of the response."""

    name: str = ""
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True)
class CreatePartitionsResponse:
    """CreatePartitions, the response."""

    throttle_time_ms: int = 0
    results: Sequence[CreatePartitionsTopicResult] = ()
