"""FindCoordinator: which broker coordinates a group or a transactional id. Any broker can answer it."""

from __future__ import annotations

from asyncio import sleep
from typing import Final, TypeAlias

from klamm.broker.cluster.internal_topics import BY_KEY_TYPE, GROUPS, CoordinatorRow
from klamm.broker.cluster.leadership import LeadershipView
from klamm.broker.net.context import HandlerResult, RequestContext
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

# Of this request: many keys are on few partitions.
_Leaders: TypeAlias = dict[int, tuple[int, str, int] | None]


KEYS_AT_ONCE: Final = 50  # more take several turns of the loop: other requests come between


def handle(
    services: Services, context: RequestContext, request: FindCoordinatorRequest
) -> HandlerResult[FindCoordinatorResponse]:
    """The coordinator of each key; a missing internal topic is created after the response."""
    leaders: _Leaders = {}
    if request.is_batched:
        if len(request.coordinator_keys) > KEYS_AT_ONCE:
            return _of_many(services, context, request)
        return FindCoordinatorResponse(
            coordinators=[
                _find(services, context, key, request.key_type, leaders) for key in request.coordinator_keys
            ]
        )
    found = _find(services, context, request.key, request.key_type, leaders)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message or "NONE",
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


async def _of_many(
    services: Services, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    found: list[Coordinator] = []
    leaders: _Leaders = {}
    for at, key in enumerate(request.coordinator_keys, start=1):
        found.append(_find(services, context, key, request.key_type, leaders))
        if at % KEYS_AT_ONCE == 0:
            await sleep(0)
            leaders.clear()  # they may have changed
    return FindCoordinatorResponse(coordinators=found)


def _find(
    services: Services, context: RequestContext, key: str, key_type: int, leaders: _Leaders
) -> Coordinator:
    found = _coordinator(services, context, key, key_type, leaders)
    tracing = services.groups.tracing
    if tracing is not None and BY_KEY_TYPE.get(key_type) is GROUPS:
        tracing.found_coordinator(
            key, context.client_id, context.client_host, found.node_id, found.error_code
        )
    return found


def _coordinator(
    services: Services, context: RequestContext, key: str, key_type: int, leaders: _Leaders
) -> Coordinator:
    row = BY_KEY_TYPE.get(key_type)
    if row is None:
        return _refused(key, ErrorCode.invalid_request, f"There is no coordinator of type {key_type}.")
    number = services.coordinator(row).coordinator.partition_for(key)
    if number not in leaders:
        leaders[number] = _leader(services, context, row, number)
    leader = leaders[number]
    if leader is None:
        return _refused(key, ErrorCode.coordinator_not_available)
    return Coordinator(key, *leader, error_message="")


def _leader(
    services: Services, context: RequestContext, row: CoordinatorRow, number: int
) -> tuple[int, str, int] | None:
    """The leader of a partition of the internal topic, with its address; None if there is none."""
    partition = services.image.partition(row.topic, number)
    if partition is None:
        services.coordinator(row).topic.create()
        return None
    view = LeadershipView(services.image, services.partitions, context.listener)
    leader_id = view.of(row.topic, partition).leader_id  # none when its log cannot be read
    address = services.image.address(leader_id, context.listener)
    return None if address is None else (leader_id, *address)


def _refused(
    key: str, error_code: ErrorCode, message: str = "The coordinator is not available."
) -> Coordinator:
    return Coordinator(key, -1, "", -1, int(error_code), message)
