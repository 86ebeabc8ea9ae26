"""Metadata (key 3), versions 0 to 13 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request
from klamm.protocol.types import ZERO_ID


class MetadataRequestTopic(Message):
    """Part of the request."""

    __slots__ = ("topic_id", "name")
    SCHEMA = (
        (10, 13, "topic_id", "uuid"),
        (0, 9, "name", "string"),
        (10, 13, "name", "string?"),
    )

    def __init__(
        self,
        topic_id: bytes = ZERO_ID,
        name: str | None = None,
    ) -> None:
        self.topic_id = topic_id
        self.name = name


class MetadataRequest(Request["MetadataResponse"]):
    """Metadata, the request."""

    __slots__ = (
        "topics",
        "allow_auto_topic_creation",
        "include_cluster_authorized_operations",
        "include_topic_authorized_operations",
        "empty_means_all",
        "knows_listener_not_found",
        "may_ask_by_id",
    )
    SCHEMA = (
        (0, 0, "topics", "[]MetadataRequestTopic"),
        (1, 13, "topics", "[]MetadataRequestTopic?"),
        (4, 13, "allow_auto_topic_creation", "bool"),
        (8, 10, "include_cluster_authorized_operations", "bool"),
        (8, 13, "include_topic_authorized_operations", "bool"),
    )

    def __init__(
        self,
        topics: Sequence[MetadataRequestTopic] | None = (),
        allow_auto_topic_creation: bool = True,
        include_cluster_authorized_operations: bool = False,
        include_topic_authorized_operations: bool = False,
        empty_means_all: bool = False,  # what the version implies
        knows_listener_not_found: bool = False,  # what the version implies
        may_ask_by_id: bool = False,  # what the version implies
    ) -> None:
        self.topics = topics
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.include_topic_authorized_operations = include_topic_authorized_operations
        self.empty_means_all = empty_means_all
        self.knows_listener_not_found = knows_listener_not_found
        self.may_ask_by_id = may_ask_by_id


class MetadataResponseBroker(Message):
    """Part of the response."""

    __slots__ = ("node_id", "host", "port", "rack")
    SCHEMA = (
        (0, 13, "node_id", "int32"),
        (0, 13, "host", "string"),
        (0, 13, "port", "int32"),
        (1, 13, "rack", "string?"),
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


class MetadataResponsePartition(Message):
    """Part of the response."""

    __slots__ = (
        "error_code",
        "partition_index",
        "leader_id",
        "leader_epoch",
        "replica_nodes",
        "isr_nodes",
        "offline_replicas",
    )
    SCHEMA = (
        (0, 13, "error_code", "int16"),
        (0, 13, "partition_index", "int32"),
        (0, 13, "leader_id", "int32"),
        (7, 13, "leader_epoch", "int32"),
        (0, 13, "replica_nodes", "[]int32"),
        (0, 13, "isr_nodes", "[]int32"),
        (5, 13, "offline_replicas", "[]int32"),
    )

    def __init__(
        self,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: Sequence[int] = (),
        isr_nodes: Sequence[int] = (),
        offline_replicas: Sequence[int] = (),
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = replica_nodes
        self.isr_nodes = isr_nodes
        self.offline_replicas = offline_replicas


class MetadataResponseTopic(Message):
    """Part of the response."""

    __slots__ = ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations")
    SCHEMA = (
        (0, 13, "error_code", "int16"),
        (0, 11, "name", "string"),
        (12, 13, "name", "string?"),
        (10, 13, "topic_id", "uuid"),
        (1, 13, "is_internal", "bool"),
        (0, 13, "partitions", "[]MetadataResponsePartition"),
        (8, 13, "topic_authorized_operations", "int32"),
    )

    def __init__(
        self,
        error_code: int = 0,
        name: str | None = None,
        topic_id: bytes = ZERO_ID,
        is_internal: bool = False,
        partitions: Sequence[MetadataResponsePartition] = (),
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = partitions
        self.topic_authorized_operations = topic_authorized_operations


class MetadataResponse(Message):
    """Metadata, the response."""

    __slots__ = (
        "throttle_time_ms",
        "brokers",
        "cluster_id",
        "controller_id",
        "topics",
        "error_code",
        "cluster_authorized_operations",
    )
    SCHEMA = (
        (3, 13, "throttle_time_ms", "int32"),
        (0, 13, "brokers", "[]MetadataResponseBroker"),
        (2, 13, "cluster_id", "string?"),
        (1, 13, "controller_id", "int32"),
        (0, 13, "topics", "[]MetadataResponseTopic"),
        (13, 13, "error_code", "int16"),
        (8, 10, "cluster_authorized_operations", "int32"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        brokers: Sequence[MetadataResponseBroker] = (),
        cluster_id: str | None = None,
        controller_id: int = -1,
        topics: Sequence[MetadataResponseTopic] = (),
        error_code: int = 0,
        cluster_authorized_operations: int = -2147483648,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.brokers = brokers
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.topics = topics
        self.error_code = error_code
        self.cluster_authorized_operations = cluster_authorized_operations
