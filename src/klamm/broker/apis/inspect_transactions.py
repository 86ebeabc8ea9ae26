"""InspectTransactions, an API of klamm's own: what the coordinator knows of an id. It changes nothing."""

from __future__ import annotations

import json

from klamm.broker.net.context import RequestContext
from klamm.broker.services import Services
from klamm.coordinator.runtime.shard import ACTIVE
from klamm.coordinator.transaction.inspecting import inside
from klamm.coordinator.transaction.machine import TransactionMachine
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.inspect_transactions import (
    InspectedTransaction,
    InspectTransactionsRequest,
    InspectTransactionsResponse,
)


def handle(
    services: Services, context: RequestContext, request: InspectTransactionsRequest
) -> InspectTransactionsResponse:
    """The inside of each id, as it is now."""
    return InspectTransactionsResponse(
        transactions=[_inspected(services, each) for each in request.transactional_ids]
    )


def _inspected(services: Services, transactional_id: str) -> InspectedTransaction:
    coordinator = services.transactions.coordinator
    partition = coordinator.partition_for(transactional_id)
    shard = coordinator.shards.by_partition.get(partition)
    if shard is None or shard.status is not ACTIVE or not isinstance(shard.machine, TransactionMachine):
        error_code = coordinator.shards.why_not(partition)
        return InspectedTransaction(error_code=error_code, transactional_id=transactional_id)
    state = shard.machine.state
    found = inside(state, transactional_id, services.clock.timestamp_ms())
    if found is None:
        return InspectedTransaction(
            error_code=ErrorCode.transactional_id_not_found, transactional_id=transactional_id
        )
    found["is_durable"] = shard.is_durable(state.transactions[transactional_id].stored_until)
    content = json.dumps(found, ensure_ascii=False).encode()
    return InspectedTransaction(transactional_id=transactional_id, content=content)
