"""IncrementalAlterConfigs (key 44), versions 0 to 1 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class AlterableConfig(Message):
    """Part of the request."""

    __slots__ = ("name", "config_operation", "value")
    SCHEMA = (
        (0, 1, "name", "string"),
        (0, 1, "config_operation", "int8"),
        (0, 1, "value", "string?"),
    )

    def __init__(
        self,
        name: str = "",
        config_operation: int = 0,
        value: str | None = None,
    ) -> None:
        self.name = name
        self.config_operation = config_operation
        self.value = value


class AlterConfigsResource(Message):
    """Part of the request."""

    __slots__ = ("resource_type", "resource_name", "configs")
    SCHEMA = (
        (0, 1, "resource_type", "int8"),
        (0, 1, "resource_name", "string"),
        (0, 1, "configs", "[]AlterableConfig"),
    )

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        configs: Sequence[AlterableConfig] = (),
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = configs


class IncrementalAlterConfigsRequest(Request["IncrementalAlterConfigsResponse"]):
    """IncrementalAlterConfigs, the request."""

    __slots__ = ("resources", "validate_only")
    SCHEMA = (
        (0, 1, "resources", "[]AlterConfigsResource"),
        (0, 1, "validate_only", "bool"),
    )

    def __init__(
        self,
        resources: Sequence[AlterConfigsResource] = (),
        validate_only: bool = False,
    ) -> None:
        self.resources = resources
        self.validate_only = validate_only


class AlterConfigsResourceResponse(Message):
    """Part of the response."""

    __slots__ = ("error_code", "error_message", "resource_type", "resource_name")
    SCHEMA = (
        (0, 1, "error_code", "int16"),
        (0, 1, "error_message", "string?"),
        (0, 1, "resource_type", "int8"),
        (0, 1, "resource_name", "string"),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        resource_type: int = 0,
        resource_name: str = "",
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name


class IncrementalAlterConfigsResponse(Message):
    """IncrementalAlterConfigs, the response."""

    __slots__ = ("throttle_time_ms", "responses")
    SCHEMA = (
        (0, 1, "throttle_time_ms", "int32"),
        (0, 1, "responses", "[]AlterConfigsResourceResponse"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        responses: Sequence[AlterConfigsResourceResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = responses
