"""Produce (key 0), versions 3 to 13 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request
from klamm.protocol.types import ZERO_ID, Buffer


@dataclass(slots=True)
class PartitionProduceData:
    """Part of the request."""

    index: int = 0
    records: Buffer | None = None


@dataclass(slots=True)
class TopicProduceData:
    """Part of the request."""

    topic_id: bytes = ZERO_ID
    name: str = ""
    partition_data: Sequence[PartitionProduceData] = ()


@dataclass(slots=True)
class ProduceRequest(Request["ProduceResponse"]):
    """Produce, the request."""

    transactional_id: str | None = None
    acks: int = 0
    timeout_ms: int = 0
    topic_data: Sequence[TopicProduceData] = ()
    allows_zstd: bool = False  # what the version implies
    uses_topic_ids: bool = False  # what the version implies
    knows_transaction_abortable: bool = False  # what the version implies
    adds_partitions: bool = False  # what the version implies


@dataclass(slots=True)
class BatchIndexAndErrorMessage:
    """Part of the response."""

    batch_index: int = 0
    batch_index_error_message: str | None = None


@dataclass(slots=True)
class LeaderIdAndEpoch:
    """Part of the response."""

    leader_id: int = -1
    leader_epoch: int = -1


@dataclass(slots=True)
class PartitionProduceResponse:
    """Part of the response."""

    index: int = 0
    error_code: int = 0
    base_offset: int = 0
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[BatchIndexAndErrorMessage] = ()
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch | None = None


@dataclass(slots=True)
class TopicProduceResponse:
    """Part of the response."""

    topic_id: bytes = ZERO_ID
    name: str = ""
    partition_responses: Sequence[PartitionProduceResponse] = ()


@dataclass(slots=True)
class NodeEndpoint:
    """Part of the response."""

    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


@dataclass(slots=True)
class ProduceResponse:
    """Produce, the response."""

    responses: Sequence[TopicProduceResponse] = ()
    throttle_time_ms: int = 0
    node_endpoints: Sequence[NodeEndpoint] = ()
