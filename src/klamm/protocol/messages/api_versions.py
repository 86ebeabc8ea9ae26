"""ApiVersions (key 18), versions 0 to 4 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class ApiVersionsRequest(Request["ApiVersionsResponse"]):
    """ApiVersions, the request."""

    client_software_name: str = ""
    client_software_version: str = ""
    names_software: bool = False  # what the version implies
    knows_zero_minimum: bool = False  # what the version implies


@dataclass(slots=True)
class ApiVersion:
    """Part of the response."""

    api_key: int = 0
    min_version: int = 0
    max_version: int = 0


@dataclass(slots=True)
class SupportedFeatureKey:
    """Part of the response."""

    name: str = ""
    min_version: int = 0
    max_version: int = 0


@dataclass(slots=True)
class FinalizedFeatureKey:
    """Part of the response."""

    name: str = ""
    max_version_level: int = 0
    min_version_level: int = 0


@dataclass(slots=True)
class ApiVersionsResponse:
    """ApiVersions, the response."""

    error_code: int = 0
    api_keys: Sequence[ApiVersion] = ()
    throttle_time_ms: int = 0
    supported_features: Sequence[SupportedFeatureKey] = ()
    finalized_features_epoch: int = -1
    finalized_features: Sequence[FinalizedFeatureKey] = ()
    zk_migration_ready: bool = False
