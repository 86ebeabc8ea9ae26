"""DescribeCluster (key 60), versions 0 to 2 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class DescribeClusterRequest(Request["DescribeClusterResponse"]):
    """DescribeCluster, the request."""

    __slots__ = ("include_cluster_authorized_operations", "endpoint_type", "include_fenced_brokers")
    SCHEMA = (
        (0, 2, "include_cluster_authorized_operations", "bool"),
        (1, 2, "endpoint_type", "int8"),
        (2, 2, "include_fenced_brokers", "bool"),
    )

    def __init__(
        self,
        include_cluster_authorized_operations: bool = False,
        endpoint_type: int = 1,
        include_fenced_brokers: bool = False,
    ) -> None:
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.endpoint_type = endpoint_type
        self.include_fenced_brokers = include_fenced_brokers


class DescribeClusterBroker(Message):
    """Part of the response."""

    __slots__ = ("broker_id", "host", "port", "rack", "is_fenced")
    SCHEMA = (
        (0, 2, "broker_id", "int32"),
        (0, 2, "host", "string"),
        (0, 2, "port", "int32"),
        (0, 2, "rack", "string?"),
        (2, 2, "is_fenced", "bool"),
    )

    def __init__(
        self,
        broker_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
        is_fenced: bool = False,
    ) -> None:
        self.broker_id = broker_id
        self.host = host
        self.port = port
        self.rack = rack
        self.is_fenced = is_fenced


class DescribeClusterResponse(Message):
    """DescribeCluster, the response."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "endpoint_type",
        "cluster_id",
        "controller_id",
        "brokers",
        "cluster_authorized_operations",
    )
    SCHEMA = (
        (0, 2, "throttle_time_ms", "int32"),
        (0, 2, "error_code", "int16"),
        (0, 2, "error_message", "string?"),
        (1, 2, "endpoint_type", "int8"),
        (0, 2, "cluster_id", "string"),
        (0, 2, "controller_id", "int32"),
        (0, 2, "brokers", "[]DescribeClusterBroker"),
        (0, 2, "cluster_authorized_operations", "int32"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        endpoint_type: int = 1,
        cluster_id: str = "",
        controller_id: int = -1,
        brokers: Sequence[DescribeClusterBroker] = (),
        cluster_authorized_operations: int = -2147483648,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.endpoint_type = endpoint_type
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.brokers = brokers
        self.cluster_authorized_operations = cluster_authorized_operations
