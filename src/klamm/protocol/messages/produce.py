"""Produce (key 0), versions 3 to 13 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request
from klamm.protocol.types import ZERO_ID, Buffer


class PartitionProduceData(Message):
    """Part of the request."""

    __slots__ = ("index", "records")
    SCHEMA = (
        (3, 13, "index", "int32"),
        (3, 13, "records", "records?"),
    )

    def __init__(
        self,
        index: int = 0,
        records: Buffer | None = None,
    ) -> None:
        self.index = index
        self.records = records


class TopicProduceData(Message):
    """Part of the request."""

    __slots__ = ("topic_id", "name", "partition_data")
    SCHEMA = (
        (13, 13, "topic_id", "uuid"),
        (3, 12, "name", "string"),
        (3, 13, "partition_data", "[]PartitionProduceData"),
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_ID,
        name: str = "",
        partition_data: Sequence[PartitionProduceData] = (),
    ) -> None:
        self.topic_id = topic_id
        self.name = name
        self.partition_data = partition_data


class ProduceRequest(Request["ProduceResponse"]):
    """Produce, the request."""

    __slots__ = (
        "transactional_id",
        "acks",
        "timeout_ms",
        "topic_data",
        "allows_zstd",
        "uses_topic_ids",
        "knows_transaction_abortable",
        "adds_partitions",
    )
    SCHEMA = (
        (3, 13, "transactional_id", "string?"),
        (3, 13, "acks", "int16"),
        (3, 13, "timeout_ms", "int32"),
        (3, 13, "topic_data", "[]TopicProduceData"),
    )

    def __init__(
        self,
        transactional_id: str | None = None,
        acks: int = 0,
        timeout_ms: int = 0,
        topic_data: Sequence[TopicProduceData] = (),
        allows_zstd: bool = False,  # what the version implies
        uses_topic_ids: bool = False,  # what the version implies
        knows_transaction_abortable: bool = False,  # what the version implies
        adds_partitions: bool = False,  # what the version implies
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data = topic_data
        self.allows_zstd = allows_zstd
        self.uses_topic_ids = uses_topic_ids
        self.knows_transaction_abortable = knows_transaction_abortable
        self.adds_partitions = adds_partitions


class BatchIndexAndErrorMessage(Message):
    """Part of the response."""

    __slots__ = ("batch_index", "batch_index_error_message")
    SCHEMA = (
        (8, 13, "batch_index", "int32"),
        (8, 13, "batch_index_error_message", "string?"),
    )

    def __init__(
        self,
        batch_index: int = 0,
        batch_index_error_message: str | None = None,
    ) -> None:
        self.batch_index = batch_index
        self.batch_index_error_message = batch_index_error_message


class LeaderIdAndEpoch(Message):
    """Part of the response."""

    __slots__ = ("leader_id", "leader_epoch")
    SCHEMA = (
        (10, 13, "leader_id", "int32"),
        (10, 13, "leader_epoch", "int32"),
    )

    def __init__(
        self,
        leader_id: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class PartitionProduceResponse(Message):
    """Part of the response."""

    __slots__ = (
        "index",
        "error_code",
        "base_offset",
        "log_append_time_ms",
        "log_start_offset",
        "record_errors",
        "error_message",
        "current_leader",
    )
    SCHEMA = (
        (3, 13, "index", "int32"),
        (3, 13, "error_code", "int16"),
        (3, 13, "base_offset", "int64"),
        (3, 13, "log_append_time_ms", "int64"),
        (5, 13, "log_start_offset", "int64"),
        (8, 13, "record_errors", "[]BatchIndexAndErrorMessage"),
        (8, 13, "error_message", "string?"),
        (10, 13, "current_leader", "LeaderIdAndEpoch", 0),
    )

    def __init__(
        self,
        index: int = 0,
        error_code: int = 0,
        base_offset: int = 0,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: Sequence[BatchIndexAndErrorMessage] = (),
        error_message: str | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors = record_errors
        self.error_message = error_message
        self.current_leader = current_leader


class TopicProduceResponse(Message):
    """Part of the response."""

    __slots__ = ("topic_id", "name", "partition_responses")
    SCHEMA = (
        (13, 13, "topic_id", "uuid"),
        (3, 12, "name", "string"),
        (3, 13, "partition_responses", "[]PartitionProduceResponse"),
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_ID,
        name: str = "",
        partition_responses: Sequence[PartitionProduceResponse] = (),
    ) -> None:
        self.topic_id = topic_id
        self.name = name
        self.partition_responses = partition_responses


class NodeEndpoint(Message):
    """Part of the response."""

    __slots__ = ("node_id", "host", "port", "rack")
    SCHEMA = (
        (10, 13, "node_id", "int32"),
        (10, 13, "host", "string"),
        (10, 13, "port", "int32"),
        (10, 13, "rack", "string?"),
    )

    def __init__(
        self,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class ProduceResponse(Message):
    """Produce, the response."""

    __slots__ = ("responses", "throttle_time_ms", "node_endpoints")
    SCHEMA = (
        (3, 13, "responses", "[]TopicProduceResponse"),
        (3, 13, "throttle_time_ms", "int32"),
        (10, 13, "node_endpoints", "[]NodeEndpoint", 0),
    )

    def __init__(
        self,
        responses: Sequence[TopicProduceResponse] = (),
        throttle_time_ms: int = 0,
        node_endpoints: Sequence[NodeEndpoint] = (),
    ) -> None:
        self.responses = responses
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints = node_endpoints
