"""AlterPartitionReassignments: replace the preferred brokers of partitions.

No data is copied: a partition whose leader is not among its new replicas is handed over to one of them.
"""

from __future__ import annotations

import logging

from klamm.broker.cluster.image import ClusterImage
from klamm.broker.cluster.moves import announce
from klamm.broker.cluster.topic_plans import row_problem
from klamm.broker.net.context import RequestContext
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from klamm.storage.cluster import (
    BrokerState,
    ClusterStoreError,
    ConflictError,
    FencedError,
    LeaderChange,
)

_log = logging.getLogger(__name__)


async def handle(
    services: Services, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Store the new replicas of each partition; hand-overs follow after the response."""
    if not request.topics:
        return AlterPartitionReassignmentsResponse(error_message="")  # Kafka looks at nothing else
    if request.timeout_ms <= 0:
        return _timed_out(request)
    responses = []
    accepted: list[tuple[str, int]] = []
    for topic in request.topics:
        lines = []
        for asked in topic.partitions:
            line = _checked(
                services.image, topic.name, asked, may_resize=request.allow_replication_factor_change
            )
            if not line.error_code:
                assert asked.replicas is not None
                line = await _replace(services, topic.name, asked.partition_index, tuple(asked.replicas))
            if not line.error_code:
                accepted.append((topic.name, asked.partition_index))
            lines.append(line)
        responses.append(ReassignableTopicResponse(topic.name, lines))
    try:
        await services.follower.catch_up()
        await announce(services, _hand_overs(services.image, accepted))
    except (ClusterStoreError, FencedError) as error:
        # The new replicas are stored: the balance moves the partitions to them.
        _log.error("announcing moves to new replicas failed: %s", error)
    return AlterPartitionReassignmentsResponse(
        responses=responses, allow_replication_factor_change=request.allow_replication_factor_change
    )


def _timed_out(request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
    code = ErrorCode.request_timed_out
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        responses=[
            ReassignableTopicResponse(
                topic.name,
                [ReassignablePartitionResponse(each.partition_index, code) for each in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def _checked(
    image: ClusterImage, topic: str, asked: ReassignablePartition, *, may_resize: bool
) -> ReassignablePartitionResponse:
    """The answer without an error if the request can be carried out."""
    index = asked.partition_index
    unknown = ErrorCode.unknown_topic_or_partition
    if image.topic(topic) is None:
        return ReassignablePartitionResponse(index, unknown, f"Unable to find a topic named {topic}.")
    state = image.partition(topic, index)
    if state is None:
        return ReassignablePartitionResponse(index, unknown, f"Unable to find partition {topic}:{index}.")
    if asked.replicas is None:  # to cancel a reassignment, which copies nothing and is done at once
        return ReassignablePartitionResponse(index, ErrorCode.no_reassignment_in_progress)
    row = tuple(asked.replicas)
    problem = row_problem(image, row, len(row))
    if problem is not None:
        return ReassignablePartitionResponse(index, ErrorCode.invalid_replica_assignment, problem)
    if not may_resize and len(row) != len(state.replicas):
        return ReassignablePartitionResponse(
            index,
            ErrorCode.invalid_replication_factor,
            f"The replication factor is changed from {len(state.replicas)} to {len(row)}",
        )
    return ReassignablePartitionResponse(index)


async def _replace(
    services: Services, topic: str, partition: int, replicas: tuple[int, ...]
) -> ReassignablePartitionResponse:
    try:
        await services.run_blocking(services.cluster.replace_replicas, topic, partition, replicas)
    except ConflictError as error:
        return ReassignablePartitionResponse(partition, ErrorCode.unknown_topic_or_partition, str(error))
    except (ClusterStoreError, FencedError) as error:
        _log.error("replacing the replicas of %s-%d failed: %s", topic, partition, error)
        return ReassignablePartitionResponse(partition, ErrorCode.kafka_storage_error, str(error))
    return ReassignablePartitionResponse(partition)


def _hand_overs(image: ClusterImage, partitions: list[tuple[str, int]]) -> list[LeaderChange]:
    """Moves to the first replica that runs, where the leader is not one of the replicas."""
    moves = []
    for topic, partition in partitions:
        state = image.partition(topic, partition)
        if state is None or state.leader_id in state.replicas:
            continue
        to = next((each for each in state.replicas if image.brokers[each].state is BrokerState.RUNNING), None)
        if to is not None:
            moves.append(LeaderChange(topic, partition, state.leader_id, state.leader_epoch, to))
    return moves
