"""AlterClientQuotas: in effect on every broker when the response is sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from klamm.broker.cluster.refusal import Refusal
from klamm.broker.net.context import RequestContext
from klamm.broker.quotas.entities import changed, entity_of
from klamm.broker.quotas.table import STORED_AS, Entity
from klamm.broker.security import audit
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryResult,
)

_TWICE: Final = Refusal(ErrorCode.invalid_request, "The entity appears in more than one entry")


async def handle(
    services: Services, context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """Change the quotas of each entity, all that is asked of it or nothing."""
    entities = [entity_of(each) for each in request.entries]
    named = Counter(each for each in entities if isinstance(each, Entity))
    outcomes: list[Refusal | Entity] = []
    changes: dict[str, Callable[[Mapping[str, str]], dict[str, str]]] = {}
    for entity, entry in zip(entities, request.entries, strict=True):
        outcome: Refusal | Entity = entity
        if isinstance(entity, Entity):
            if named[entity] > 1:
                outcome = _TWICE
            else:
                made = changed(entity, entry.ops, services.image.configs(STORED_AS, entity.key))
                if isinstance(made, Refusal):
                    outcome = made
                else:
                    changes[entity.key] = partial(_changed, entity, entry.ops)
        outcomes.append(outcome)
    failures: Mapping[str, Refusal] = {}
    if not request.validate_only:
        failures = await services.topics.alter_all_kept(STORED_AS, changes)
        audit.changed(
            context,
            [
                f"changed quotas of {entity.key}: {_in_words(entry.ops)}"
                for entity, entry in zip(entities, request.entries, strict=True)
                if isinstance(entity, Entity) and entity.key in changes and entity.key not in failures
            ],
        )
    results = []
    for outcome, entry in zip(outcomes, request.entries, strict=True):
        refusal = failures.get(outcome.key) if isinstance(outcome, Entity) else outcome
        results.append(
            EntryResult(
                0 if refusal is None else refusal.error_code,
                None if refusal is None else refusal.message,
                [EntityData(each.entity_type, each.entity_name) for each in entry.entity],
            )
        )
    return AlterClientQuotasResponse(entries=results)


def _in_words(operations: Any) -> str:
    return ", ".join(
        f"{each.key} {'removed' if each.remove else f'{each.value:.15g}'}" for each in operations
    )


def _changed(entity: Entity, operations: Any, present: Mapping[str, str]) -> dict[str, str]:
    made = changed(entity, operations, present)
    assert not isinstance(made, Refusal)  # it does not depend on what is there
    return made
