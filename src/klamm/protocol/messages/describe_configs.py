"""DescribeConfigs (key 32), versions 1 to 4 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class DescribeConfigsResource:
    """Part of the request."""

    resource_type: int = 0
    resource_name: str = ""
    configuration_keys: Sequence[str] | None = ()


@dataclass(slots=True)
class DescribeConfigsRequest(Request["DescribeConfigsResponse"]):
    """DescribeConfigs, the request."""

    resources: Sequence[DescribeConfigsResource] = ()
    include_synonyms: bool = False
    include_documentation: bool = False


@dataclass(slots=True)
class DescribeConfigsSynonym:
    """Part of the response."""

    name: str = ""
    value: str | None = None
    source: int = 0


@dataclass(slots=True)
class DescribeConfigsResourceResult:
    """Part of the response."""

    name: str = ""
    value: str | None = None
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False
    synonyms: Sequence[DescribeConfigsSynonym] = ()
    config_type: int = 0
    documentation: str | None = None


@dataclass(slots=True)
class DescribeConfigsResult:
    """Part of the response."""

    error_code: int = 0
    error_message: str | None = None
    resource_type: int = 0
    resource_name: str = ""
    configs: Sequence[DescribeConfigsResourceResult] = ()


@dataclass(slots=True)
class DescribeConfigsResponse:
    """DescribeConfigs, the response."""

    throttle_time_ms: int = 0
    results: Sequence[DescribeConfigsResult] = ()
