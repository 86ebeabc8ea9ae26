"""Metadata (key 3), versions 0 to 13 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request
from klamm.protocol.types import ZERO_ID


@dataclass(slots=True)
class MetadataRequestTopic:
    """Part of the request."""

    topic_id: bytes = ZERO_ID
    name: str | None = None


@dataclass(slots=True)
class MetadataRequest(Request["MetadataResponse"]):
    """Metadata, the request."""

    topics: Sequence[MetadataRequestTopic] | None = ()
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False
    empty_means_all: bool = False  # what the version implies
    knows_listener_not_found: bool = False  # what the version implies
    may_ask_by_id: bool = False  # what the version implies


@dataclass(slots=True)
class MetadataResponseBroker:
    """Part of the response."""

    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


@dataclass(slots=True)
class MetadataResponsePartition:
    """Part of the response."""

    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: Sequence[int] = ()
    isr_nodes: Sequence[int] = ()
    offline_replicas: Sequence[int] = ()


@dataclass(slots=True)
class MetadataResponseTopic:
    """Part of the response."""

    error_code: int = 0
    name: str | None = None
    topic_id: bytes = ZERO_ID
    is_internal: bool = False
    partitions: Sequence[MetadataResponsePartition] = ()
    topic_authorized_operations: int = -2147483648


@dataclass(slots=True)
class MetadataResponse:
    """Metadata, the response."""

    throttle_time_ms: int = 0
    brokers: Sequence[MetadataResponseBroker] = ()
    cluster_id: str | None = None
    controller_id: int = -1
    topics: Sequence[MetadataResponseTopic] = ()
    error_code: int = 0
    cluster_authorized_operations: int = -2147483648
