"""DescribeAcls (key 29), versions 1 to 3 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class DescribeAclsRequest(Request["DescribeAclsResponse"]):
    """DescribeAcls, the request."""

    __slots__ = (
        "resource_type_filter",
        "resource_name_filter",
        "pattern_type_filter",
        "principal_filter",
        "host_filter",
        "operation",
        "permission_type",
    )
    SCHEMA = (
        (1, 3, "resource_type_filter", "int8"),
        (1, 3, "resource_name_filter", "string?"),
        (1, 3, "pattern_type_filter", "int8"),
        (1, 3, "principal_filter", "string?"),
        (1, 3, "host_filter", "string?"),
        (1, 3, "operation", "int8"),
        (1, 3, "permission_type", "int8"),
    )

    def __init__(
        self,
        resource_type_filter: int = 0,
        resource_name_filter: str | None = None,
        pattern_type_filter: int = 3,
        principal_filter: str | None = None,
        host_filter: str | None = None,
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type_filter = resource_type_filter
        self.resource_name_filter = resource_name_filter
        self.pattern_type_filter = pattern_type_filter
        self.principal_filter = principal_filter
        self.host_filter = host_filter
        self.operation = operation
        self.permission_type = permission_type


class AclDescription(Message):
    """Part of the response."""

    __slots__ = ("principal", "host", "operation", "permission_type")
    SCHEMA = (
        (1, 3, "principal", "string"),
        (1, 3, "host", "string"),
        (1, 3, "operation", "int8"),
        (1, 3, "permission_type", "int8"),
    )

    def __init__(
        self,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class DescribeAclsResource(Message):
    """Part of the response."""

    __slots__ = ("resource_type", "resource_name", "pattern_type", "acls")
    SCHEMA = (
        (1, 3, "resource_type", "int8"),
        (1, 3, "resource_name", "string"),
        (1, 3, "pattern_type", "int8"),
        (1, 3, "acls", "[]AclDescription"),
    )

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        acls: Sequence[AclDescription] = (),
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.acls = acls


class DescribeAclsResponse(Message):
    """DescribeAcls, the response."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "resources")
    SCHEMA = (
        (1, 3, "throttle_time_ms", "int32"),
        (1, 3, "error_code", "int16"),
        (1, 3, "error_message", "string?"),
        (1, 3, "resources", "[]DescribeAclsResource"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        resources: Sequence[DescribeAclsResource] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.resources = resources
