"""DeleteAcls (key 31), versions 1 to 3 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class DeleteAclsFilter(Message):
    """Part of the request."""

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


class DeleteAclsRequest(Request["DeleteAclsResponse"]):
    """DeleteAcls, the request."""

    __slots__ = ("filters",)
    SCHEMA = ((1, 3, "filters", "[]DeleteAclsFilter"),)

    def __init__(
        self,
        filters: Sequence[DeleteAclsFilter] = (),
    ) -> None:
        self.filters = filters


class DeleteAclsMatchingAcl(Message):
    """Part of the response."""

    __slots__ = (
        "error_code",
        "error_message",
        "resource_type",
        "resource_name",
        "pattern_type",
        "principal",
        "host",
        "operation",
        "permission_type",
    )
    SCHEMA = (
        (1, 3, "error_code", "int16"),
        (1, 3, "error_message", "string?"),
        (1, 3, "resource_type", "int8"),
        (1, 3, "resource_name", "string"),
        (1, 3, "pattern_type", "int8"),
        (1, 3, "principal", "string"),
        (1, 3, "host", "string"),
        (1, 3, "operation", "int8"),
        (1, 3, "permission_type", "int8"),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class DeleteAclsFilterResult(Message):
    """Part of the response."""

    __slots__ = ("error_code", "error_message", "matching_acls")
    SCHEMA = (
        (1, 3, "error_code", "int16"),
        (1, 3, "error_message", "string?"),
        (1, 3, "matching_acls", "[]DeleteAclsMatchingAcl"),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        matching_acls: Sequence[DeleteAclsMatchingAcl] = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.matching_acls = matching_acls


class DeleteAclsResponse(Message):
    """DeleteAcls, the response."""

    __slots__ = ("throttle_time_ms", "filter_results")
    SCHEMA = (
        (1, 3, "throttle_time_ms", "int32"),
        (1, 3, "filter_results", "[]DeleteAclsFilterResult"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        filter_results: Sequence[DeleteAclsFilterResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.filter_results = filter_results
