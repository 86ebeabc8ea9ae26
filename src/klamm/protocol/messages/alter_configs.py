"""AlterConfigs (key 33), versions 0 to 2 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class AlterableConfig:
    """Part of the request."""

    name: str = ""
    value: str | None = None


@dataclass(slots=True)
class AlterConfigsResource:
    """Part of the request."""

    resource_type: int = 0
    resource_name: str = ""
    configs: Sequence[AlterableConfig] = ()


@dataclass(slots=True)
class AlterConfigsRequest(Request["AlterConfigsResponse"]):
    """AlterConfigs, the request."""

    resources: Sequence[AlterConfigsResource] = ()
    validate_only: bool = False


@dataclass(slots=True)
class AlterConfigsResourceResponse:
    """Part of the response."""

    error_code: int = 0
    error_message: str | None = None
    resource_type: int = 0
    resource_name: str = ""


@dataclass(slots=True)
class AlterConfigsResponse:
    """AlterConfigs, the response."""

    throttle_time_ms: int = 0
    responses: Sequence[AlterConfigsResourceResponse] = ()
