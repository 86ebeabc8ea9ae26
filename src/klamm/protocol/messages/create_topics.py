"""CreateTopics (key 19), versions 2 to 7 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request
from klamm.protocol.types import ZERO_ID


@dataclass(slots=True)
class CreatableReplicaAssignment:
    """Part of the request."""

    partition_index: int = 0
    broker_ids: Sequence[int] = ()


@dataclass(slots=True)
class CreatableTopicConfig:
    """Part of the request."""

    name: str = ""
    value: str | None = None


@dataclass(slots=True)
class CreatableTopic:
    """Part of the request."""

    name: str = ""
    num_partitions: int = 0
    replication_factor: int = 0
    assignments: Sequence[CreatableReplicaAssignment] = ()
    configs: Sequence[CreatableTopicConfig] = ()


@dataclass(slots=True)
class CreateTopicsRequest(Request["CreateTopicsResponse"]):
    """CreateTopics, the request."""

    topics: Sequence[CreatableTopic] = ()
    timeout_ms: int = 60000
    validate_only: bool = False


@dataclass(slots=True)
class CreatableTopicConfigs:
    """Part of the response."""

    name: str = ""
    value: str | None = None
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False


@dataclass(slots=True)
class CreatableTopicResult:
    """Part of the response."""

    name: str = ""
    topic_id: bytes = ZERO_ID
    error_code: int = 0
    error_message: str | None = None
    topic_config_error_code: int = 0
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Sequence[CreatableTopicConfigs] | None = ()


@dataclass(slots=True)
class CreateTopicsResponse:
    """CreateTopics, the response."""

    throttle_time_ms: int = 0
    topics: Sequence[CreatableTopicResult] = ()
