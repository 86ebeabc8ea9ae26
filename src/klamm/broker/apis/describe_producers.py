"""DescribeProducers: the producers of a partition, and the transactions that are open in it."""

from __future__ import annotations

from klamm.broker.cluster.topic_names import name_problem
from klamm.broker.net.context import HandlerResult, RequestContext
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from klamm.storage.log import LogError


def handle(
    services: Services, context: RequestContext, request: DescribeProducersRequest
) -> HandlerResult[DescribeProducersResponse]:
    """Every known producer of each partition."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                topic.name, [_describe(services, topic.name, index) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )


def _describe(services: Services, topic: str, index: int) -> PartitionResponse:
    problem = name_problem(topic)
    if problem is not None:
        return PartitionResponse(index, int(ErrorCode.invalid_topic_exception), problem)
    if services.image.topic(topic) is None:
        return PartitionResponse(index, int(ErrorCode.unknown_topic_or_partition), f"no topic '{topic}'")
    if services.image.partition(topic, index) is None:
        return PartitionResponse(index, int(ErrorCode.unknown_topic_or_partition))
    partition = services.partitions.get(topic, index)
    if partition is None:
        return PartitionResponse(index, int(ErrorCode.not_leader_or_follower))
    try:
        producers = partition.log.producers()
    except LogError as error:
        return PartitionResponse(index, int(error.error_code))
    return PartitionResponse(
        index,
        active_producers=[
            ProducerState(
                each.producer_id,
                each.producer_epoch,
                each.last_sequence,
                each.last_timestamp_ms,
                each.coordinator_epoch,
                each.current_txn_start_offset,
            )
            for each in producers
        ],
    )
