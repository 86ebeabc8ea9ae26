"""ElectLeaders: move partitions to their preferred leaders.

Logs are in a store that all brokers share, so a partition is never without a leader for long: an unclean
election has nothing to do.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from klamm.broker.cluster.image import ClusterImage
from klamm.broker.cluster.moves import announce, finished
from klamm.broker.net.context import RequestContext
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)
from klamm.storage.cluster import BrokerState, ClusterStoreError, FencedError, LeaderChange

_PREFERRED: Final = 0
_UNCLEAN: Final = 1
_NOT_NEEDED: Final = "Leader election not needed for topic partition."

_log = logging.getLogger(__name__)


async def handle(
    services: Services, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    """Elect what needs it, and respond when the new leaders are known here."""
    asked = request.topic_partitions
    if asked is not None and not asked:
        return ElectLeadersResponse()  # whatever else the request says
    if request.timeout_ms <= 0:
        return _all_refused(request, ErrorCode.request_timed_out)
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        return _all_refused(
            request, ErrorCode.invalid_request, f"Unknown election type {request.election_type}"
        )
    planned = [
        (
            topic.topic,
            [_plan(services.image, topic.topic, each, request.election_type) for each in topic.partitions],
        )
        for topic in (_all(services.image) if asked is None else asked)
    ]
    moves = [each for _, plans in planned for each in plans if isinstance(each, LeaderChange)]
    try:
        failure = await _move(services, moves, request.timeout_ms)
    except TimeoutError:
        return _all_refused(request, ErrorCode.request_timed_out)
    results = []
    for topic, plans in planned:
        partitions = [
            each if isinstance(each, PartitionResult) else failure.get(each, PartitionResult(each.partition))
            for each in plans
        ]
        if asked is None:  # all partitions: those that need no election are left out, as in Kafka
            partitions = [each for each in partitions if each.error_code != ErrorCode.election_not_needed]
        results.append(ReplicaElectionResult(topic, partitions))
    return ElectLeadersResponse(replica_election_results=results)


def _all_refused(
    request: ElectLeadersRequest, code: ErrorCode, message: str | None = None
) -> ElectLeadersResponse:
    """The same error for the request and for every partition that it names."""
    results = [
        ReplicaElectionResult(
            each.topic, [PartitionResult(index, code, message) for index in each.partitions]
        )
        for each in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=code, replica_election_results=results)


async def _move(
    services: Services, moves: Sequence[LeaderChange], timeout_ms: int
) -> dict[LeaderChange, PartitionResult]:
    """Move partitions; the errors of those that could not be moved. Raises TimeoutError."""
    if not moves:
        return {}
    try:
        await announce(services, moves)
        done = await finished(services, moves, timeout_ms)
    except (ClusterStoreError, FencedError) as error:
        _log.error("announcing %d elections failed: %s", len(moves), error)
        return {
            each: PartitionResult(each.partition, ErrorCode.kafka_storage_error, str(error)) for each in moves
        }
    if len(done) < len(moves):
        raise TimeoutError
    return {}


def _all(image: ClusterImage) -> Sequence[TopicPartitions]:
    return [
        TopicPartitions(name, range(len(topic.partitions))) for name, topic in sorted(image.topics.items())
    ]


def _plan(image: ClusterImage, topic: str, partition: int, kind: int) -> LeaderChange | PartitionResult:
    if image.topic(topic) is None:
        return PartitionResult(partition, ErrorCode.unknown_topic_or_partition, f"No such topic as {topic}")
    state = image.partition(topic, partition)
    if state is None:
        return PartitionResult(
            partition, ErrorCode.unknown_topic_or_partition, f"No such partition as {topic}-{partition}"
        )
    preferred = state.replicas[0]
    if kind == _UNCLEAN or state.leader_id == preferred:
        return PartitionResult(partition, ErrorCode.election_not_needed, _NOT_NEEDED)
    broker = image.brokers.get(preferred)
    if broker is None or broker.state is not BrokerState.RUNNING:
        return PartitionResult(
            partition, ErrorCode.preferred_leader_not_available, "The preferred leader was not available."
        )
    return LeaderChange(topic, partition, state.leader_id, state.leader_epoch, preferred)
