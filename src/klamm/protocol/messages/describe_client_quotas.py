"""DescribeClientQuotas (key 48), versions 0 to 1 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class ComponentData(Message):
    """Part of the request."""

    __slots__ = ("entity_type", "match_type", "match")
    SCHEMA = (
        (0, 1, "entity_type", "string"),
        (0, 1, "match_type", "int8"),
        (0, 1, "match", "string?"),
    )

    def __init__(
        self,
        entity_type: str = "",
        match_type: int = 0,
        match: str | None = None,
    ) -> None:
        self.entity_type = entity_type
        self.match_type = match_type
        self.match = match


class DescribeClientQuotasRequest(Request["DescribeClientQuotasResponse"]):
    """DescribeClientQuotas, the request."""

    __slots__ = ("components", "strict")
    SCHEMA = (
        (0, 1, "components", "[]ComponentData"),
        (0, 1, "strict", "bool"),
    )

    def __init__(
        self,
        components: Sequence[ComponentData] = (),
        strict: bool = False,
    ) -> None:
        self.components = components
        self.strict = strict


class EntityData(Message):
    """Part of the response."""

    __slots__ = ("entity_type", "entity_name")
    SCHEMA = (
        (0, 1, "entity_type", "string"),
        (0, 1, "entity_name", "string?"),
    )

    def __init__(
        self,
        entity_type: str = "",
        entity_name: str | None = None,
    ) -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class ValueData(Message):
    """Part of the response."""

    __slots__ = ("key", "value")
    SCHEMA = (
        (0, 1, "key", "string"),
        (0, 1, "value", "float64"),
    )

    def __init__(
        self,
        key: str = "",
        value: float = 0.0,
    ) -> None:
        self.key = key
        self.value = value


class EntryData(Message):
    """Part of the response."""

    __slots__ = ("entity", "quota_values")
    SCHEMA = (
        (0, 1, "entity", "[]EntityData"),
        (0, 1, "quota_values", "[]ValueData"),
    )

    def __init__(
        self,
        entity: Sequence[EntityData] = (),
        quota_values: Sequence[ValueData] = (),
    ) -> None:
        self.entity = entity
        self.quota_values = quota_values


class DescribeClientQuotasResponse(Message):
    """DescribeClientQuotas, the response."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "entries")
    SCHEMA = (
        (0, 1, "throttle_time_ms", "int32"),
        (0, 1, "error_code", "int16"),
        (0, 1, "error_message", "string?"),
        (0, 1, "entries", "[]EntryData?"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        entries: Sequence[EntryData] | None = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.entries = entries
