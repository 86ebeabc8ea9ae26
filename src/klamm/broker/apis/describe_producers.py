"""DescribeProducers: the producers of a partition, and the transactions that are open in it.

`kafka-transactions find-hanging --broker-id` asks a broker about every partition of which it is a replica.
Only the leader knows the producers: a replica asks it for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from klamm.broker.cluster.topic_names import ADMIN_CLIENT_ID, name_problem
from klamm.broker.net.context import HandlerResult, RequestContext
from klamm.broker.services import Services
from klamm.errors import KlammError
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)
from klamm.protocol.types import TopicPartition
from klamm.storage.log import LogError


def handle(
    services: Services, context: RequestContext, request: DescribeProducersRequest
) -> HandlerResult[DescribeProducersResponse]:
    """Every known producer of each partition."""
    response = DescribeProducersResponse(
        topics=[
            TopicResponse(
                topic.name, [_describe(services, topic.name, index) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )
    if context.client_id == ADMIN_CLIENT_ID:
        return response  # to a broker, which took this one for the leader: it must not be asked in turn
    elsewhere = _led_elsewhere(services, response)
    return _with_those_of(services, response, elsewhere) if elsewhere else response


def _led_elsewhere(
    services: Services, response: DescribeProducersResponse
) -> Mapping[int, Sequence[TopicPartition]]:
    """By leader, the partitions of which this broker is a replica."""
    image = services.image
    by_leader: dict[int, list[TopicPartition]] = {}
    for topic in response.topics:
        for line in topic.partitions:
            if line.error_code != ErrorCode.not_leader_or_follower:
                continue
            state = image.partition(topic.name, line.partition_index)
            here = image.broker_id
            if state is not None and here in state.replicas and state.leader_id != here:
                name = TopicPartition(topic.name, line.partition_index)
                by_leader.setdefault(state.leader_id, []).append(name)
    return by_leader


async def _with_those_of(
    services: Services,
    response: DescribeProducersResponse,
    elsewhere: Mapping[int, Sequence[TopicPartition]],
) -> DescribeProducersResponse:
    """The response with what the leaders say; where one does not respond, the client has to retry."""
    answers = await asyncio.gather(
        *(
            services.peers.ask(
                leader_id,
                ApiKey.DESCRIBE_PRODUCERS,
                DescribeProducersRequest([TopicRequest(topic, [index]) for topic, index in partitions]),
            )
            for leader_id, partitions in elsewhere.items()
        ),
        return_exceptions=True,
    )
    found: dict[tuple[str, int], PartitionResponse] = {}
    for answer in answers:
        if isinstance(answer, KlammError):
            continue
        if isinstance(answer, BaseException):
            raise answer
        for topic in answer.topics:
            found |= {(topic.name, line.partition_index): line for line in topic.partitions}
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                topic.name, [found.get((topic.name, line.partition_index), line) for line in topic.partitions]
            )
            for topic in response.topics
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
        producers = partition.transactions.producers()
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
