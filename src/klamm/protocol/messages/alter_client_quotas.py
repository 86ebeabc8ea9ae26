"""AlterClientQuotas (key 49), versions 0 to 1 in one shape; made by tools/make_messages.py."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.protocol.message import Message, Request


class EntityData(Message):
    """Part of the request."""

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


class OpData(Message):
    """Part of the request."""

    __slots__ = ("key", "value", "remove")
    SCHEMA = (
        (0, 1, "key", "string"),
        (0, 1, "value", "float64"),
        (0, 1, "remove", "bool"),
    )

    def __init__(
        self,
        key: str = "",
        value: float = 0.0,
        remove: bool = False,
    ) -> None:
        self.key = key
        self.value = value
        self.remove = remove


class EntryData(Message):
    """Part of the request."""

    __slots__ = ("entity", "ops")
    SCHEMA = (
        (0, 1, "entity", "[]EntityData"),
        (0, 1, "ops", "[]OpData"),
    )

    def __init__(
        self,
        entity: Sequence[EntityData] = (),
        ops: Sequence[OpData] = (),
    ) -> None:
        self.entity = entity
        self.ops = ops


class AlterClientQuotasRequest(Request["AlterClientQuotasResponse"]):
    """AlterClientQuotas, the request."""

    __slots__ = ("entries", "validate_only")
    SCHEMA = (
        (0, 1, "entries", "[]EntryData"),
        (0, 1, "validate_only", "bool"),
    )

    def __init__(
        self,
        entries: Sequence[EntryData] = (),
        validate_only: bool = False,
    ) -> None:
        self.entries = entries
        self.validate_only = validate_only


class EntryResult(Message):
    """Part of the response."""

    __slots__ = ("error_code", "error_message", "entity")
    SCHEMA = (
        (0, 1, "error_code", "int16"),
        (0, 1, "error_message", "string?"),
        (0, 1, "entity", "[]EntityData"),
    )

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        entity: Sequence[EntityData] = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.entity = entity


class AlterClientQuotasResponse(Message):
    """AlterClientQuotas, the response."""

    __slots__ = ("throttle_time_ms", "entries")
    SCHEMA = (
        (0, 1, "throttle_time_ms", "int32"),
        (0, 1, "entries", "[]EntryResult"),
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        entries: Sequence[EntryResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.entries = entries
