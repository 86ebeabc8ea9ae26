"""ApiVersions (key 18), versions 0 to 4 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class ApiVersionsRequest(Request["ApiVersionsResponse"]):
    """ApiVersions, the request."""

    __slots__ = ("client_software_name", "client_software_version", "names_software", "knows_zero_minimum")
    SCHEMA = (
        (3, 4, "client_software_name", "string"),
        (3, 4, "client_software_version", "string"),
    )

    def __init__(
        self,
        client_software_name: str = "",
        client_software_version: str = "",
        names_software: bool = False,  # what the version implies
        knows_zero_minimum: bool = False,  # what the version implies
    ) -> None:
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version
        self.names_software = names_software
        self.knows_zero_minimum = knows_zero_minimum


class ApiVersion(Message):
    """Part of the response."""

    __slots__ = ("api_key", "min_version", "max_version")
    SCHEMA = (
        (0, 4, "api_key", "int16"),
        (0, 4, "min_version", "int16"),
        (0, 4, "max_version", "int16"),
    )

    def __init__(
        self,
        api_key: int = 0,
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.api_key = api_key
        self.min_version = min_version
        self.max_version = max_version


class SupportedFeatureKey(Message):
    """Part of the response."""

    __slots__ = ("name", "min_version", "max_version")
    SCHEMA = (
        (3, 4, "name", "string"),
        (3, 4, "min_version", "int16"),
        (3, 4, "max_version", "int16"),
    )

    def __init__(
        self,
        name: str = "",
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.name = name
        self.min_version = min_version
        self.max_version = max_version


class FinalizedFeatureKey(Message):
    """Part of the response."""

    __slots__ = ("name", "max_version_level", "min_version_level")
    SCHEMA = (
        (3, 4, "name", "string"),
        (3, 4, "max_version_level", "int16"),
        (3, 4, "min_version_level", "int16"),
    )

    def __init__(
        self,
        name: str = "",
        max_version_level: int = 0,
        min_version_level: int = 0,
    ) -> None:
        self.name = name
        self.max_version_level = max_version_level
        self.min_version_level = min_version_level


class ApiVersionsResponse(Message):
    """ApiVersions, the response."""

    __slots__ = (
        "error_code",
        "api_keys",
        "throttle_time_ms",
        "supported_features",
        "finalized_features_epoch",
        "finalized_features",
        "zk_migration_ready",
    )
    SCHEMA = (
        (0, 4, "error_code", "int16"),
        (0, 4, "api_keys", "[]ApiVersion"),
        (1, 4, "throttle_time_ms", "int32"),
        (3, 4, "supported_features", "[]SupportedFeatureKey", 0),
        (3, 4, "finalized_features_epoch", "int64", 1),
        (3, 4, "finalized_features", "[]FinalizedFeatureKey", 2),
        (3, 4, "zk_migration_ready", "bool", 3),
    )

    def __init__(
        self,
        error_code: int = 0,
        api_keys: Sequence[ApiVersion] = (),
        throttle_time_ms: int = 0,
        supported_features: Sequence[SupportedFeatureKey] = (),
        finalized_features_epoch: int = -1,
        finalized_features: Sequence[FinalizedFeatureKey] = (),
        zk_migration_ready: bool = False,
    ) -> None:
        self.error_code = error_code
        self.api_keys = api_keys
        self.throttle_time_ms = throttle_time_ms
        self.supported_features = supported_features
        self.finalized_features_epoch = finalized_features_epoch
        self.finalized_features = finalized_features
        self.zk_migration_ready = zk_migration_ready
