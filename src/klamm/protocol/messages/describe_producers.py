"""DescribeProducers (key 61), versions 0 to 0 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class TopicRequest:
    """Part of the request."""

    name: str = ""
    partition_indexes: Sequence[int] = ()


@dataclass(slots=True)
class DescribeProducersRequest(Request["DescribeProducersResponse"]):
    """DescribeProducers, the request."""

    topics: Sequence[TopicRequest] = ()


@dataclass(slots=True)
class ProducerState:
    """Part of the response."""

    producer_id: int = 0
    producer_epoch: int = 0
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = 0
    current_txn_start_offset: int = -1


@dataclass(slots=True)
class PartitionResponse:
    """Part of the response."""

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    active_producers: Sequence[ProducerState] = ()


@dataclass(slots=True)
class TopicResponse:
    """Part of the response."""

    name: str = ""
    partitions: Sequence[PartitionResponse] = ()


@dataclass(slots=True)
class DescribeProducersResponse:
    """DescribeProducers, the response."""

    throttle_time_ms: int = 0
    topics: Sequence[TopicResponse] = ()
