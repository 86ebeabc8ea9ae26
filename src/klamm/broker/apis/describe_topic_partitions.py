"""DescribeTopicPartitions: Metadata in pages, topics by name."""

from __future__ import annotations

from klamm.access.acls import ResourceType
from klamm.broker.cluster.leadership import LeadershipView
from klamm.broker.cluster.topic_names import is_internal, name_problem
from klamm.broker.net.context import RequestContext
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
        return _refused(request, ErrorCode.invalid_request)
    if cursor is None and any(not topic.name for topic in request.topics):
        return _refused(
            request, ErrorCode.unknown_server_error
        )  # as Kafka, which looks for the cursor's topic
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
        end = min(_int32(first + room), len(topic.partitions))
        described = _describe(view, topic, first, end, operations(context, ResourceType.TOPIC, name))
        topics.append(described)
        room -= len(described.partitions)
        if end < len(topic.partitions):
            response.next_cursor = Cursor(name, end)
            break
    response.topics = topics
    return response


def _int32(value: int) -> int:
    """A sum as Kafka makes it: it may wrap."""
    return (value + 2**31) % 2**32 - 2**31


def _refused(
    request: DescribeTopicPartitionsRequest, error_code: ErrorCode
) -> DescribeTopicPartitionsResponse:
    """The error in each topic: the response has no field for it outside of them."""
    topics = [
        DescribeTopicPartitionsResponseTopic(error_code=error_code, name=topic.name)
        for topic in request.topics
    ]
    return DescribeTopicPartitionsResponse(topics=topics)


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
    view: LeadershipView, topic: TopicState, first: int, end: int, operations: int
) -> DescribeTopicPartitionsResponseTopic:
    partitions = []
    for partition in topic.partitions[first : max(0, end)]:
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
