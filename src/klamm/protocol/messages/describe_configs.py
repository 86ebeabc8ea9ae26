"""DescribeConfigs (key 32), versions 1 to 4 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class DescribeConfigsResource(Message):
    """Part of the request."""

    __slots__ = ("resource_type", "resource_name", "configuration_keys")
    SCHEMA = (
        (1, 4, "resource_type", "int8"),
        (1, 4, "resource_name", "string"),
        (1, 4, "configuration_keys", "[]string?"),
    )

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        configuration_keys: Sequence[str] | None = (),
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configuration_keys = configuration_keys


class DescribeConfigsRequest(Request["DescribeConfigsResponse"]):
    """DescribeConfigs, the request."""

    __slots__ = ("resources", "include_synonyms", "include_documentation")
    SCHEMA = (
        (1, 4, "resources", "[]DescribeConfigsResource"),
        (1, 4, "include_synonyms", "bool"),
        (3, 4, "include_documentation", "bool"),
    )

    def __init__(
        self,
        resources: Sequence[DescribeConfigsResource] = (),
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> None:
        self.resources = resources
        self.include_synonyms = include_synonyms
        self.include_documentation = include_documentation


class DescribeConfigsSynonym(Message):
    """Part of the response."""

    __slots__ = ("name", "value", "source")
    SCHEMA = (
        (1, 4, "name", "string"),
        (1, 4, "value", "string?"),
        (1, 4, "source", "int8"),
    )

    def __init__(
        self,
        name: str = "",
        value: str | None = None,
        source: int = 0,
    ) -> None:
        self.name = name
        self.value = value
        self.source = source


class DescribeConfigsResourceResult(Message):
    """Part of the response."""

    __slots__ = (
        "name",
        "value",
        "read_only",
        "config_source",
        "is_sensitive",
        "synonyms",
        "config_type",
        "documentation",
    )
    SCHEMA = (
        (1, 4, "name", "string"),
        (1, 4, "value", "string?"),
        (1, 4, "read_only", "bool"),
        (1, 4, "config_source", "int8"),
        (1, 4, "is_sensitive", "bool"),
        (1, 4, "synonyms", "[]DescribeConfigsSynonym"),
        (3, 4, "config_type", "int8"),
        (3, 4, "documentation", "string?"),
    )

    def __init__(
        self,
        name: str = "",
        value: str | None = None,
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
        synonyms: Sequence[DescribeConfigsSynonym] = (),
        config_type: int = 0,
        documentation: str | None = None,
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive
        self.synonyms = synonyms
        self.config_type = config_type
        self.documentation = documentation


class DescribeConfigsResult(Message):
    """Part of the response."""

    __slots__ = ("error_code", "error_message", "resource_type", "resource_name", "configs")
    SCHEMA = (
        (1, 4, "error_code", "int16"),
        (1, 4, "error_message", "string?"),
        (1, 4, "resource_type", "int8"),
        (1, 4, "resource_name", "string"),
        (1, 4, "configs", "[]DescribeConfigsResourceResult"),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        resource_type: int = 0,
        resource_name: str = "",
        configs: Sequence[DescribeConfigsResourceResult] = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = configs


class DescribeConfigsResponse(Message):
    """DescribeConfigs, the response."""

    __slots__ = ("throttle_time_ms", "results")
    SCHEMA = (
        (1, 4, "throttle_time_ms", "int32"),
        (1, 4, "results", "[]DescribeConfigsResult"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results: Sequence[DescribeConfigsResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results
