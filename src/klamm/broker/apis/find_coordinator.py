"""FindCoordinator: which broker coordinates a group or a transactional id. Any broker can answer it."""

from __future__ import annotations

from klamm.broker.cluster.internal_topics import BY_KEY_TYPE, GROUPS
from klamm.broker.cluster.leadership import LeadershipView
from klamm.broker.net.context import RequestContext
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)


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
    found = _coordinator(services, context, key, key_type)
    tracing = services.groups.tracing
    if tracing is not None and BY_KEY_TYPE.get(key_type) is GROUPS:
        tracing.found_coordinator(
            key, context.client_id, context.client_host, found.node_id, found.error_code
        )
    return found


def _coordinator(services: Services, context: RequestContext, key: str, key_type: int) -> Coordinator:
    row = BY_KEY_TYPE.get(key_type)
    if row is None:
        return _refused(key, ErrorCode.invalid_request, f"There is no coordinator of type {key_type}.")
    host = services.coordinator(row)
    topic = row.topic
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
