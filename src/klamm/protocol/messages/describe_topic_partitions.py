"""DescribeTopicPartitions (key 75), versions 0 to 0 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request
from klamm.protocol.types import ZERO_ID


@dataclass(slots=True)
class TopicRequest:
    """Part of the request."""

    name: str = ""


@dataclass(slots=True)
class Cursor:
    """Part of the request."""

    topic_name: str = ""
    partition_index: int = 0


@dataclass(slots=True)
class DescribeTopicPartitionsRequest(Request["DescribeTopicPartitionsResponse"]):
    """DescribeTopicPartitions, the request."""

    topics: Sequence[TopicRequest] = ()
    response_partition_limit: int = 2000
    cursor: Cursor | None = None


@dataclass(slots=True)
class DescribeTopicPartitionsResponsePartition:
    """Part of the response."""

    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: Sequence[int] = ()
    isr_nodes: Sequence[int] = ()
    eligible_leader_replicas: Sequence[int] | None = None
    last_known_elr: Sequence[int] | None = None
    offline_replicas: Sequence[int] = ()


@dataclass(slots=True)
class DescribeTopicPartitionsResponseTopic:
    """Part of the response."""

    error_code: int = 0
    name: str | None = None
    topic_id: bytes = ZERO_ID
    is_internal: bool = False
    partitions: Sequence[DescribeTopicPartitionsResponsePartition] = ()
    topic_authorized_operations: int = -2147483648


@dataclass(slots=True)
class DescribeTopicPartitionsResponse:
    """DescribeTopicPartitions, the response."""

    throttle_time_ms: int = 0
    topics: Sequence[DescribeTopicPartitionsResponseTopic] = ()
    next_cursor: Cursor | None = None
