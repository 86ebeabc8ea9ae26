"""UpdateFeatures (key 57), versions 0 to 2 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from klamm.protocol.request import Request


@dataclass(slots=True)
class FeatureUpdateKey:
    """Part of the request."""

    feature: str = ""
    max_version_level: int = 0
    upgrade_type: int = 1
    allow_downgrade: bool = False


@dataclass(slots=True)
class UpdateFeaturesRequest(Request["UpdateFeaturesResponse"]):
    """UpdateFeatures, the request."""

    timeout_ms: int = 60000
    feature_updates: Sequence[FeatureUpdateKey] = ()
    validate_only: bool = False
    has_downgrade_flag: bool = False  # what the version implies


@dataclass(slots=True)
class UpdatableFeatureResult:
    """Part of the response."""

    feature: str = ""
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True)
class UpdateFeaturesResponse:
    """UpdateFeatures, the response."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    results: Sequence[UpdatableFeatureResult] = ()
