"""FindCoordinator: which broker coordinates a group or a transactional id. Any broker can answer it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.broker.cluster.leadership import LeadershipView
from klamm.broker.net.context import RequestContext
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from klamm.broker.coordinators.groups import Groups
    from klamm.broker.coordinators.transactions import Transactions

GROUP: Final = 0
TRANSACTION: Final = 1


def handle(
    services: Services, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """The coordinator of each key; a missing internal topic is created after the response."""
    if request.is_batched:
        return FindCoordinatorResponse(
            coordinators=[_find(services, context, key, request.key_type) for key in request.coordinator_keys]
        )
    found = _find(services, context, request.key, request.key_type)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message or "NONE",
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(services: Services, context: RequestContext, key: str, key_type: int) -> Coordinator:
    host: Groups | Transactions
    if key_type == GROUP:
        host = services.groups
    elif key_type == TRANSACTION:
        host = services.transactions
    else:
        return _refused(key, ErrorCode.invalid_request, f"There is no coordinator of type {key_type}.")
    topic = host.topic.name
    partition = services.image.partition(topic, host.coordinator.partition_for(key))
    if partition is None:
        host.topic.create()
        return _refused(key, ErrorCode.coordinator_not_available)
    view = LeadershipView(services.image, services.partitions, context.listener)
    leader_id = view.of(topic, partition).leader_id  # none when its log cannot be read
    address = services.image.address(leader_id, context.listener)
    if address is None:
        return _refused(key, ErrorCode.coordinator_not_available)
    return Coordinator(key, leader_id, *address, error_message="")


def _refused(
    key: str, error_code: ErrorCode, message: str = "The coordinator is not available."
) -> Coordinator:
    return Coordinator(key, -1, "", -1, int(error_code), message)
