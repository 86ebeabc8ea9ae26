"""Changes of quotas: which entities and keys there are, and why one cannot be set."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any, Final

from klamm.broker.cluster.refusal import Refusal
from klamm.broker.quotas.table import (
    CLIENT_ID,
    CONNECTION_RATE,
    CONSUMER_RATE,
    IP,
    MUTATION_RATE,
    PRODUCER_RATE,
    REQUEST_PERCENTAGE,
    USER,
    Entity,
)
from klamm.protocol.errors import ErrorCode

TYPES: Final = (USER, CLIENT_ID, IP)
_OF_CLIENTS: Final = (PRODUCER_RATE, CONSUMER_RATE, REQUEST_PERCENTAGE, MUTATION_RATE)
_WHOLE_NUMBERS: Final = (PRODUCER_RATE, CONSUMER_RATE, CONNECTION_RATE)


def entity_of(asked: Any) -> Entity | Refusal:
    """The entity of an entry of AlterClientQuotas."""
    parts: dict[str, str | None] = {}
    for each in asked.entity:
        if each.entity_type in parts:
            return _invalid(f"Entity type {each.entity_type} appears twice")
        if each.entity_type not in TYPES:
            return _invalid(f"Unhandled client quota entity type: {each.entity_type}")
        if each.entity_name == "":
            return _invalid(f"Empty {each.entity_type} not supported")
        parts[each.entity_type] = each.entity_name
    if not parts:
        return _invalid("Invalid empty client quota entity")
    if IP in parts and len(parts) > 1:
        return _invalid("Invalid quota entity combination, IP entity should not be used with others.")
    name = parts.get(IP)
    if name is not None and not _is_address(name):
        return _invalid(f"{name} is not a valid IP or resolvable host.")
    return Entity.of(parts)


def changed(entity: Entity, operations: Any, present: Mapping[str, str]) -> dict[str, str] | Refusal:
    """An entity's quotas after a change, or why it cannot be made."""
    made = dict(present)
    is_ip = entity.parts[0][0] == IP
    for each in operations:
        if each.key not in ((CONNECTION_RATE,) if is_ip else _OF_CLIENTS):
            return _invalid(f"Invalid configuration key {each.key}")
        if each.remove:
            made.pop(each.key, None)
            continue
        if not each.value > 0:
            return _invalid(f"Quota {each.key} must be greater than 0")
        if each.key in _WHOLE_NUMBERS and each.value != int(each.value):
            return _invalid(f"{each.key} cannot be a fractional value.")
        made[each.key] = repr(each.value)
    return made


def _is_address(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.invalid_request, message)
