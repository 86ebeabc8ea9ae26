"""Metadata: brokers, topics, leaders; a request may create unknown topics.

Version notes: 0 requests all topics with an empty list, 1 and later with null. 4 lets a client forbid
creation. 6 distinguishes a missing listener from a missing leader. 10 and 11 have topic ids in requests but
may not use them, 12 and later may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from klamm.access.acls import CLUSTER_NAME, ResourceType
from klamm.broker.cluster.leadership import LeadershipView
from klamm.broker.cluster.refusal import Refusal
from klamm.broker.cluster.topic_names import is_internal, name_problem
from klamm.broker.net.context import HandlerResult, RequestContext
from klamm.broker.security.permissions import NOT_REQUESTED
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from klamm.protocol.types import ZERO_ID
from klamm.storage.cluster import TopicState


def handle(
    services: Services, context: RequestContext, request: MetadataRequest
) -> HandlerResult[MetadataResponse]:
    """Describe the cluster, after creating missing topics if allowed."""
    asked = request.topics
    if asked is None or (not asked and request.empty_means_all):
        return _describe(services, context, request, list(services.image.topics.values()))
    if not request.may_ask_by_id and any(topic.name is None or topic.topic_id != ZERO_ID for topic in asked):
        return _refused(asked, ErrorCode.invalid_request)
    if any(topic.topic_id != ZERO_ID for topic in asked):
        # A mixed request is answered for its ids alone, as Kafka does.
        ids = dict.fromkeys(topic.topic_id for topic in asked if topic.topic_id != ZERO_ID)
        return _describe(services, context, request, [_by_id(services, topic_id) for topic_id in ids])
    if any(topic.name is None for topic in asked):
        refused = _refused(asked, ErrorCode.unknown_server_error)  # as Kafka, which looks for a name
        refused.error_code = ErrorCode.unknown_server_error
        return refused
    names = list(dict.fromkeys(topic.name for topic in asked if topic.name is not None))
    if request.allow_auto_topic_creation and services.config.auto_create_topics_enable:
        missing = [name for name in names if name not in services.image.topics]
        if missing:
            return _create_and_describe(services, context, request, names, missing)
    return _describe_names(services, context, request, names, {})


async def _create_and_describe(
    services: Services,
    context: RequestContext,
    request: MetadataRequest,
    names: Sequence[str],
    missing: Sequence[str],
) -> MetadataResponse:
    refusals = await services.topics.ensure(missing)
    return _describe_names(services, context, request, names, refusals)


def _describe_names(
    services: Services,
    context: RequestContext,
    request: MetadataRequest,
    names: Iterable[str],
    refusals: Mapping[str, Refusal],
) -> MetadataResponse:
    operations = _topic_operations(services, context, request)
    topics = [
        services.image.topic(name) or _unknown_name(name, refusals.get(name), operations(name))
        for name in names
    ]
    return _describe(services, context, request, topics)


def _topic_operations(
    services: Services, context: RequestContext, request: MetadataRequest
) -> Callable[[str], int]:
    """The authorized operations of a topic by name, if the client requests them."""
    if not request.include_topic_authorized_operations:
        return lambda name: NOT_REQUESTED
    return partial(services.authorizer.operations, context, ResourceType.TOPIC)


def _unknown_name(name: str, refusal: Refusal | None, operations: int) -> MetadataResponseTopic:
    if refusal is not None:
        error_code = refusal.error_code
    elif name_problem(name) is not None:
        error_code = ErrorCode.invalid_topic_exception
    else:
        error_code = ErrorCode.unknown_topic_or_partition
    return MetadataResponseTopic(
        error_code=error_code,
        name=name,
        is_internal=is_internal(name),
        topic_authorized_operations=operations,
    )


def _by_id(services: Services, topic_id: bytes) -> TopicState | MetadataResponseTopic:
    return services.image.topic_by_id(topic_id) or MetadataResponseTopic(
        error_code=ErrorCode.unknown_topic_id, name=None, topic_id=topic_id
    )


def _refused(asked: Sequence[MetadataRequestTopic], error_code: ErrorCode) -> MetadataResponse:
    """The same error for every topic of a request."""
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(error_code=error_code, name=topic.name or "", topic_id=topic.topic_id)
            for topic in asked
        ]
    )


def _describe(
    services: Services,
    context: RequestContext,
    request: MetadataRequest,
    topics: Sequence[TopicState | MetadataResponseTopic],
) -> MetadataResponse:
    image = services.image
    view = LeadershipView(image, services.partitions, context.listener)
    operations = _topic_operations(services, context, request)
    brokers = [
        MetadataResponseBroker(each.broker_id, *address, each.rack)
        for each in image.running_brokers()
        if (address := each.listeners.get(context.listener)) is not None
    ]
    return MetadataResponse(
        brokers=brokers,
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=[
            topic
            if isinstance(topic, MetadataResponseTopic)
            else _topic(view, topic, operations(topic.name), knows_listener=request.knows_listener_not_found)
            for topic in topics
        ],
        cluster_authorized_operations=(
            services.authorizer.operations(context, ResourceType.CLUSTER, CLUSTER_NAME)
            if request.include_cluster_authorized_operations
            else NOT_REQUESTED
        ),
    )


def _topic(
    view: LeadershipView, topic: TopicState, operations: int, *, knows_listener: bool
) -> MetadataResponseTopic:
    partitions = []
    for partition in topic.partitions:
        error_code, leader_id, replicas, in_sync, offline = view.of(topic.name, partition)
        if error_code is ErrorCode.listener_not_found and not knows_listener:
            error_code = ErrorCode.leader_not_available
        partitions.append(
            MetadataResponsePartition(
                error_code,
                partition.partition,
                leader_id,
                partition.leader_epoch,
                replicas,
                in_sync,
                offline,
            )
        )
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=partitions,
        topic_authorized_operations=operations,
    )
