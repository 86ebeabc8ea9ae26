"""DescribeClientQuotas: the quotas that are set, of the entities that a filter selects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from klamm.broker.cluster.refusal import Refusal
from klamm.broker.net.context import RequestContext
from klamm.broker.quotas.entities import TYPES
from klamm.broker.quotas.table import IP, Entity, QuotaTable
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2


def handle(
    services: Services, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Without components: all; with strict: only entities of exactly these types."""
    refusal = _problem(request.components)
    if refusal is not None:
        return DescribeClientQuotasResponse(
            error_code=refusal.error_code, error_message=refusal.message, entries=None
        )
    wanted = {each.entity_type: each for each in request.components}
    return DescribeClientQuotasResponse(
        entries=[
            EntryData(
                [EntityData(kind, name) for kind, name in entity.parts],
                [ValueData(key, value) for key, value in values.items()],
            )
            for entity, values in QuotaTable(services.image).entities()
            if _is_selected(entity, wanted, strict=request.strict)
        ]
    )


def _is_selected(entity: Entity, wanted: Mapping[str, ComponentData], *, strict: bool) -> bool:
    parts = dict(entity.parts)
    if strict and parts.keys() != wanted.keys():
        return False
    for kind, component in wanted.items():
        if kind not in parts:
            return False
        if component.match_type == _EXACT and parts[kind] != component.match:
            return False
        if component.match_type == _DEFAULT and parts[kind] is not None:
            return False
    return True


def _problem(components: Sequence[ComponentData]) -> Refusal | None:
    seen: set[str] = set()
    for each in components:
        kind = each.entity_type
        if not kind:
            return _invalid("Invalid empty entity type")
        if kind in seen:
            return _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in TYPES:
            return Refusal(ErrorCode.unsupported_version, f"Unsupported entity type {kind}")
        if each.match_type not in (_EXACT, _DEFAULT, _ANY):
            return _invalid(f"Unknown match type {each.match_type}")
        if each.match_type == _EXACT and each.match is None:
            return _invalid("Request specified MATCH_TYPE_EXACT, but no name was given.")
        if each.match_type != _EXACT and each.match is not None:
            return _invalid("Request specified a name for a match type that takes none.")
        seen.add(kind)
    if IP in seen and len(seen) > 1:
        return _invalid("Invalid entity filter component combination, IP should not be used with others.")
    return None


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.invalid_request, message)
