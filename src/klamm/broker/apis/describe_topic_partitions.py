"""DescribeTopicPartitions: Metadata in pages, topics by name."""

from __future__ import annotations

from klamm.broker.cluster.leadership import LeadershipView
from klamm.broker.cluster.topic_names import is_internal, name_problem
from klamm.broker.net.context import RequestContext
from klamm.broker.security.permissions import ResourceType
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from klamm.storage.cluster import TopicState


def handle(
    services: Services, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """As many partitions as fit the page, and where the next page begins."""
    cursor = request.cursor
    if cursor is not None and not _is_usable(cursor, request):
        # The response has no error field outside its topics.
        return DescribeTopicPartitionsResponse(
            topics=[
                DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.invalid_request, name=topic.name)
                for topic in request.topics
            ]
        )
    names = sorted({topic.name for topic in request.topics} or services.image.topics)
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    limit = min(request.response_partition_limit, services.config.max_request_partition_size_limit)
    room = max(1, limit)
    view = LeadershipView(services.image, services.partitions, context.listener)
    operations = services.authorizer.operations
    response = DescribeTopicPartitionsResponse()
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        if not room:
            response.next_cursor = Cursor(name, 0)
            break
        topic = services.image.topic(name)
        if topic is None:
            topics.append(_unknown(name, operations(context, ResourceType.TOPIC, name)))
            continue
        described = _describe(view, topic, first, room, operations(context, ResourceType.TOPIC, name))
        topics.append(described)
        room -= len(described.partitions)
        if first + len(described.partitions) < len(topic.partitions):
            response.next_cursor = Cursor(name, first + len(described.partitions))
            break
    response.topics = topics
    return response


def _is_usable(cursor: Cursor, request: DescribeTopicPartitionsRequest) -> bool:
    is_listed = not request.topics or any(topic.name == cursor.topic_name for topic in request.topics)
    return is_listed and cursor.partition_index >= 0


def _unknown(name: str, operations: int) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=(
            ErrorCode.unknown_topic_or_partition
            if name_problem(name) is None
            else ErrorCode.invalid_topic_exception
        ),
        name=name,
        is_internal=is_internal(name),
        topic_authorized_operations=operations,
    )


def _describe(
    view: LeadershipView, topic: TopicState, first: int, room: int, operations: int
) -> DescribeTopicPartitionsResponseTopic:
    partitions = []
    for partition in topic.partitions[first : first + room]:
        error_code, leader_id, replicas, in_sync, offline = view.of(topic.name, partition)
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                error_code=error_code,
                partition_index=partition.partition,
                leader_id=leader_id,
                leader_epoch=partition.leader_epoch,
                replica_nodes=replicas,
                isr_nodes=in_sync,
                eligible_leader_replicas=(),
                last_known_elr=(),
                offline_replicas=offline,
            )
        )
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=partitions,
        topic_authorized_operations=operations,
    )
