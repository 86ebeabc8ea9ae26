"""UpdateFeatures (key 57), versions 0 to 2 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class FeatureUpdateKey(Message):
    """Part of the request."""

    __slots__ = ("feature", "max_version_level", "upgrade_type", "allow_downgrade")
    SCHEMA = (
        (0, 2, "feature", "string"),
        (0, 2, "max_version_level", "int16"),
        (1, 2, "upgrade_type", "int8"),
        (0, 0, "allow_downgrade", "bool"),
    )

    def __init__(
        self,
        feature: str = "",
        max_version_level: int = 0,
        upgrade_type: int = 1,
        allow_downgrade: bool = False,
    ) -> None:
        self.feature = feature
        self.max_version_level = max_version_level
        self.upgrade_type = upgrade_type
        self.allow_downgrade = allow_downgrade


class UpdateFeaturesRequest(Request["UpdateFeaturesResponse"]):
    """UpdateFeatures, the request."""

    __slots__ = ("timeout_ms", "feature_updates", "validate_only", "has_downgrade_flag")
    SCHEMA = (
        (0, 2, "timeout_ms", "int32"),
        (0, 2, "feature_updates", "[]FeatureUpdateKey"),
        (1, 2, "validate_only", "bool"),
    )

    def __init__(
        self,
        timeout_ms: int = 60000,
        feature_updates: Sequence[FeatureUpdateKey] = (),
        validate_only: bool = False,
        has_downgrade_flag: bool = False,  # what the version implies
    ) -> None:
        self.timeout_ms = timeout_ms
        self.feature_updates = feature_updates
        self.validate_only = validate_only
        self.has_downgrade_flag = has_downgrade_flag


class UpdatableFeatureResult(Message):
    """Part of the response."""

    __slots__ = ("feature", "error_code", "error_message")
    SCHEMA = (
        (0, 1, "feature", "string"),
        (0, 1, "error_code", "int16"),
        (0, 1, "error_message", "string?"),
    )

    def __init__(
        self,
        feature: str = "",
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.feature = feature
        self.error_code = error_code
        self.error_message = error_message


class UpdateFeaturesResponse(Message):
    """UpdateFeatures, the response."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "results")
    SCHEMA = (
        (0, 2, "throttle_time_ms", "int32"),
        (0, 2, "error_code", "int16"),
        (0, 2, "error_message", "string?"),
        (0, 1, "results", "[]UpdatableFeatureResult"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        results: Sequence[UpdatableFeatureResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = results
