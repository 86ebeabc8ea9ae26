"""ListConfigResources (key 74), versions 0 to 1 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class ListConfigResourcesRequest(Request["ListConfigResourcesResponse"]):
    """ListConfigResources, the request."""

    __slots__ = ("resource_types", "is_of_client_metrics")
    SCHEMA = ((1, 1, "resource_types", "[]int8"),)

    def __init__(
        self,
        resource_types: Sequence[int] = (),
        is_of_client_metrics: bool = False,  # what the version implies
    ) -> None:
        self.resource_types = resource_types
        self.is_of_client_metrics = is_of_client_metrics


class ConfigResource(Message):
    """Part of the response."""

    __slots__ = ("resource_name", "resource_type")
    SCHEMA = (
        (0, 1, "resource_name", "string"),
        (1, 1, "resource_type", "int8"),
    )

    def __init__(
        self,
        resource_name: str = "",
        resource_type: int = 16,
    ) -> None:
        self.resource_name = resource_name
        self.resource_type = resource_type


class ListConfigResourcesResponse(Message):
    """ListConfigResources, the response."""

    __slots__ = ("throttle_time_ms", "error_code", "config_resources")
    SCHEMA = (
        (0, 1, "throttle_time_ms", "int32"),
        (0, 1, "error_code", "int16"),
        (0, 1, "config_resources", "[]ConfigResource"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        config_resources: Sequence[ConfigResource] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.config_resources = config_resources
