"""CreateAcls (key 30), versions 1 to 3 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class AclCreation(Message):
    """Part of the request."""

    __slots__ = (
        "resource_type",
        "resource_name",
        "resource_pattern_type",
        "principal",
        "host",
        "operation",
        "permission_type",
    )
    SCHEMA = (
        (1, 3, "resource_type", "int8"),
        (1, 3, "resource_name", "string"),
        (1, 3, "resource_pattern_type", "int8"),
        (1, 3, "principal", "string"),
        (1, 3, "host", "string"),
        (1, 3, "operation", "int8"),
        (1, 3, "permission_type", "int8"),
    )

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        resource_pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.resource_pattern_type = resource_pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class CreateAclsRequest(Request["CreateAclsResponse"]):
    """CreateAcls, the request."""

    __slots__ = ("creations",)
    SCHEMA = ((1, 3, "creations", "[]AclCreation"),)

    def __init__(
        self,
        creations: Sequence[AclCreation] = (),
    ) -> None:
        self.creations = creations


class AclCreationResult(Message):
    """Part of the response."""

    __slots__ = ("error_code", "error_message")
    SCHEMA = (
        (1, 3, "error_code", "int16"),
        (1, 3, "error_message", "string?"),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message


class CreateAclsResponse(Message):
    """CreateAcls, the response."""

    __slots__ = ("throttle_time_ms", "results")
    SCHEMA = (
        (1, 3, "throttle_time_ms", "int32"),
        (1, 3, "results", "[]AclCreationResult"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: Sequence[AclCreationResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results
