"""Requests about quotas of clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from klamm.client.admin.access_model import DEFAULT_ENTITY, QuotaEntity
from klamm.client.admin.results import Results
from klamm.client.calls import Calls
from klamm.errors import KlammError, ProtocolError, broker_error
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from klamm.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

_EXACT: Final = 0  # how a component of a filter matches
_DEFAULT: Final = 1


async def describe_quotas(
    calls: Calls, entity: QuotaEntity | None, *, is_strict: bool, timeout_ms: int | None
) -> dict[QuotaEntity, dict[str, float]]:
    deadline = calls.deadline("describing quotas", timeout_ms)
    components = [
        ComponentData(kind, _EXACT if name else _DEFAULT, name or None)
        for kind, name in _parts(entity or QuotaEntity())
    ]
    request = DescribeClientQuotasRequest(components, is_strict)
    response: DescribeClientQuotasResponse = await calls.to_any(
        ApiKey.DESCRIBE_CLIENT_QUOTAS, request, deadline
    )
    if response.error_code:
        raise broker_error(response.error_code, "describing quotas", response.error_message)
    found = {
        _entity(item.entity): {
            each.key: each.value for each in sorted(item.quota_values, key=lambda v: v.key)
        }
        for item in response.entries or ()
    }
    return dict(sorted(found.items(), key=lambda item: _order(item[0])))


async def alter_quotas(
    calls: Calls,
    quotas: Mapping[QuotaEntity, Mapping[str, float | None]],
    *,
    validate_only: bool,
    timeout_ms: int | None,
) -> Results[QuotaEntity, None]:
    """Change quotas; each entity all or nothing."""
    deadline = calls.deadline("changing quotas", timeout_ms)
    if not quotas:
        return Results()
    request = AlterClientQuotasRequest(
        [
            EntryData(
                [EntityData(kind, name or None) for kind, name in _parts(entity)],
                [OpData(key, rate or 0.0, rate is None) for key, rate in rates.items()],
            )
            for entity, rates in quotas.items()
        ],
        validate_only,
    )
    response: AlterClientQuotasResponse = await calls.to_any(ApiKey.ALTER_CLIENT_QUOTAS, request, deadline)
    outcomes: dict[QuotaEntity, KlammError | None] = {}
    for item in response.entries:
        entity = _entity(item.entity)
        outcomes[entity] = (
            broker_error(item.error_code, f"quotas of {entity}", item.error_message)
            if item.error_code
            else None
        )
    return Results(outcomes)


def _parts(entity: QuotaEntity) -> Sequence[tuple[str, str]]:
    parts = (("user", entity.user), ("client-id", entity.client_id), ("ip", entity.ip))
    return [(kind, name) for kind, name in parts if name is not None]


def _entity(parts: Sequence[Any]) -> QuotaEntity:
    names = {part.entity_type: part.entity_name or DEFAULT_ENTITY for part in parts}
    unknown = names.keys() - {"user", "client-id", "ip"}
    if unknown:
        raise ProtocolError(
            f"a quota of the broker is for what klamm does not know: {', '.join(sorted(unknown))}"
        )
    return QuotaEntity(names.get("user"), names.get("client-id"), names.get("ip"))


def _order(entity: QuotaEntity) -> tuple[str, ...]:
    """By user, client id and address, defaults first."""
    parts = (entity.user, entity.client_id, entity.ip)
    return tuple("" if name is None else f"1{name}" for name in parts)
