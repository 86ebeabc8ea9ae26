"""DescribeProducers (key 61), versions 0 to 0 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class TopicRequest(Message):
    """Part of the request."""

    __slots__ = ("name", "partition_indexes")
    SCHEMA = (
        (0, 0, "name", "string"),
        (0, 0, "partition_indexes", "[]int32"),
    )

    def __init__(
        self,
        name: str = "",
        partition_indexes: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.partition_indexes = partition_indexes


class DescribeProducersRequest(Request["DescribeProducersResponse"]):
    """DescribeProducers, the request."""

    __slots__ = ("topics",)
    SCHEMA = ((0, 0, "topics", "[]TopicRequest"),)

    def __init__(
        self,
        topics: Sequence[TopicRequest] = (),
    ) -> None:
        self.topics = topics


class ProducerState(Message):
    """Part of the response."""

    __slots__ = (
        "producer_id",
        "producer_epoch",
        "last_sequence",
        "last_timestamp",
        "coordinator_epoch",
        "current_txn_start_offset",
    )
    SCHEMA = (
        (0, 0, "producer_id", "int64"),
        (0, 0, "producer_epoch", "int32"),
        (0, 0, "last_sequence", "int32"),
        (0, 0, "last_timestamp", "int64"),
        (0, 0, "coordinator_epoch", "int32"),
        (0, 0, "current_txn_start_offset", "int64"),
    )

    def __init__(
        self,
        producer_id: int = 0,
        producer_epoch: int = 0,
        last_sequence: int = -1,
        last_timestamp: int = -1,
        coordinator_epoch: int = 0,
        current_txn_start_offset: int = -1,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.last_sequence = last_sequence
        self.last_timestamp = last_timestamp
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_start_offset = current_txn_start_offset


class PartitionResponse(Message):
    """Part of the response."""

    __slots__ = ("partition_index", "error_code", "error_message", "active_producers")
    SCHEMA = (
        (0, 0, "partition_index", "int32"),
        (0, 0, "error_code", "int16"),
        (0, 0, "error_message", "string?"),
        (0, 0, "active_producers", "[]ProducerState"),
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        active_producers: Sequence[ProducerState] = (),
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.active_producers = active_producers


class TopicResponse(Message):
    """Part of the response."""

    __slots__ = ("name", "partitions")
    SCHEMA = (
        (0, 0, "name", "string"),
        (0, 0, "partitions", "[]PartitionResponse"),
    )

    def __init__(
        self,
        name: str = "",
        partitions: Sequence[PartitionResponse] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


class DescribeProducersResponse(Message):
    """DescribeProducers, the response."""

    __slots__ = ("throttle_time_ms", "topics")
    SCHEMA = (
        (0, 0, "throttle_time_ms", "int32"),
        (0, 0, "topics", "[]TopicResponse"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: Sequence[TopicResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
