"""Fetch: read records, or wait until there are enough."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from klamm.access.acls import CLUSTER_NAME
from klamm.broker.cluster.leadership import leader_hint
from klamm.broker.net.context import HandlerResult, RequestContext
from klamm.broker.net.failures import failure_of
from klamm.broker.partitions.fetch_read import (
    ISOLATION_LEVELS,
    FetchSource,
    FetchWait,
    Limits,
    ReadResult,
    find_source,
    has_enough,
    in_response_order,
    read_all,
)
from klamm.broker.partitions.fetch_sessions import NO_SESSION_ID, FetchPlan, FetchTarget
from klamm.broker.partitions.flush_wait import (
    FLUSH_TIMEOUT_MS,
    FlushWait,
    PendingFlush,
    own_pending_flushes,
)
from klamm.broker.partitions.loading import now_or_loaded
from klamm.broker.security.permissions import CLUSTER_ACTION, READ_TOPIC
from klamm.broker.services import Services
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from klamm.protocol.types import ZERO_ID

_MOVED_REPLICA = -3  # within Kafka's broker, from one folder to another: no consumer
_NAMES_LEADER = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch})


def handle(
    services: Services, context: RequestContext, request: FetchRequest
) -> HandlerResult[FetchResponse]:
    """Respond at once when there are enough bytes, or nothing to wait for."""
    if context.written:
        pending = own_pending_flushes(context.written)
        if pending:
            return _after_flush(services, context, request, pending)
    plan = services.fetch_sessions.plan(request)
    if plan.error_code is not ErrorCode.none:
        if plan.error_code is ErrorCode.unknown_server_error:
            return _failed(request)
        return FetchResponse(error_code=int(plan.error_code), session_id=NO_SESSION_ID)
    limits = _limits(services, request)
    found = [
        find_source(services.image, services.partitions, target, request.uses_topic_ids)
        for target in plan.targets
    ]
    if _is_from_replica(request):
        for source in found:
            source.is_for_replica = True
    if not services.authorizer.is_open:
        found = _allowed(services, context, request, found)
    sources = in_response_order(found)
    if request.isolation_level not in ISOLATION_LEVELS and any(source.is_read for source in sources):
        return _failed(request)

    def answer() -> FetchResponse:
        return _answer(services, context, request, plan, read_all(sources, limits))

    if (
        request.max_wait_ms <= 0
        or limits.min_bytes <= 0
        or all(source.partition is None for source in sources)
        or has_enough(sources, limits, is_new=True)
    ):
        return now_or_loaded(services.run_blocking, answer)

    def answer_later() -> FetchResponse | Awaitable[FetchResponse]:
        quotas = services.quotas
        if quotas is None:
            return now_or_loaded(services.run_blocking, answer)
        since_s = quotas.now_s()
        try:
            return now_or_loaded(services.run_blocking, answer)
        finally:
            quotas.spent(context, since_s)

    return FetchWait(
        services.loop, services.deadlines, sources, limits, request.max_wait_ms, answer_later
    ).future


def _allowed(
    services: Services, context: RequestContext, request: FetchRequest, found: Sequence[FetchSource]
) -> list[FetchSource]:
    """Every partition is checked in every request: a session keeps no permission."""
    authorizer = services.authorizer
    is_replica = _is_from_replica(request)
    may_replicate = is_replica and authorizer.allows(context, CLUSTER_ACTION, CLUSTER_NAME)

    def check(source: FetchSource) -> FetchSource:
        name = source.target.found_as if request.uses_topic_ids else source.target.topic
        if not name and request.uses_topic_ids:
            return source  # an unknown id
        is_allowed = may_replicate if is_replica else authorizer.allows(context, READ_TOPIC, name)
        refused = ErrorCode.topic_authorization_failed
        return source if is_allowed else FetchSource(source.target, None, refused)

    return [check(source) for source in found]


async def _after_flush(
    services: Services, context: RequestContext, request: FetchRequest, pending: Sequence[PendingFlush]
) -> FetchResponse:
    """A client reads what it has written itself on this connection, also with acks of 0 and 1."""
    await FlushWait(services.loop, services.deadlines, pending, FLUSH_TIMEOUT_MS).future
    result = handle(services, context, request)
    if isinstance(result, FetchResponse):
        return result
    assert isinstance(result, Awaitable)
    response = await result
    assert response is not None
    return response


def _failed(request: FetchRequest) -> FetchResponse:
    """Kafka's error for a request that it fails to handle."""
    response: FetchResponse = failure_of(ApiKey.FETCH)(request, ErrorCode.unknown_server_error)
    response.session_id = request.session_id
    if request.uses_topic_ids:
        response.responses = []
    return response


def _replica_id(request: FetchRequest) -> int:
    return request.replica_id if request.replica_state is None else request.replica_state.replica_id


def _is_from_replica(request: FetchRequest) -> bool:
    return _replica_id(request) >= 0


def _limits(services: Services, request: FetchRequest) -> Limits:
    max_bytes = min(request.max_bytes, services.config.fetch_max_bytes)
    return Limits(
        max_bytes=max_bytes,
        min_bytes=min(request.min_bytes, max_bytes),
        read_committed=request.isolation_level == 1 and _replica_id(request) != _MOVED_REPLICA,
    )


def _answer(
    services: Services, context: RequestContext, request: FetchRequest, plan: FetchPlan, read: ReadResult
) -> FetchResponse:
    if services.quotas is not None and not _is_from_replica(request):
        read_bytes = sum(0 if data.records is None else len(data.records) for _, data in read)
        throttle_ms = services.quotas.fetched(context, read_bytes)
        if throttle_ms:  # without data, which its session has not been told of then
            session_id = NO_SESSION_ID if plan.session is None else plan.session.session_id
            return FetchResponse(throttle_ms, session_id=session_id)
    answer = services.fetch_sessions.answer(plan, read)
    response = FetchResponse(error_code=int(answer.error_code), session_id=answer.session_id)
    topics: list[FetchableTopicResponse] = []
    partitions: list[PartitionData] = []
    endpoints: dict[int, NodeEndpoint] = {}
    has_neither = False  # whether the last topic has neither an id nor a name
    for target, data in answer.data:
        if has_neither:
            return _failed(request)  # as Kafka, which compares its name with that of the next one
        if data.error_code:
            if data.error_code == ErrorCode.kafka_storage_error and not request.knows_storage_error:
                data.error_code = int(ErrorCode.not_leader_or_follower)
            if data.error_code in _NAMES_LEADER and request.knows_leaders:
                endpoints |= _name_leader(services, context, target, data)
        if not topics or (topics[-1].topic_id, topics[-1].topic) != (target.topic_id, target.topic):
            partitions = []
            has_neither = request.uses_topic_ids and target.topic_id == ZERO_ID
            topics.append(FetchableTopicResponse(target.topic_id, target.topic, partitions))
        partitions.append(data)
    response.responses = topics
    if endpoints and not _is_from_replica(request):
        response.node_endpoints = [endpoints[node_id] for node_id in sorted(endpoints)]
    return response


def _name_leader(
    services: Services, context: RequestContext, target: FetchTarget, data: PartitionData
) -> dict[int, NodeEndpoint]:
    """Set the current leader in the partition's data; returns the leader's endpoint."""
    known = services.image.topic_by_id(target.topic_id)
    name = target.topic if known is None else known.name
    hint = leader_hint(services.image, name, target.partition, context.listener)
    data.current_leader = LeaderIdAndEpoch(hint.leader_id, hint.leader_epoch)
    return {} if hint.endpoint is None else {hint.leader_id: NodeEndpoint(*hint.endpoint)}
