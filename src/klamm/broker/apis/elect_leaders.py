"""ElectLeaders: klamm's partitions keep the leader they have, so no election is ever needed."""

from __future__ import annotations

from typing import Final

from klamm.broker.cluster.image import ClusterImage
from klamm.broker.net.context import RequestContext
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

_ELECTION_TYPES: Final = frozenset({0, 1})  # preferred, unclean


def handle(services: Services, context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Report for each known partition that no election is needed."""
    knows_type = request.election_type in _ELECTION_TYPES
    results = []
    for asked in request.topic_partitions or ():
        partitions = []
        for partition in asked.partitions:
            if knows_type:
                partitions.append(_outcome(services.image, asked.topic, partition))
            else:
                message = f"Unknown election type {request.election_type}"
                partitions.append(PartitionResult(partition, ErrorCode.invalid_request, message))
        results.append(ReplicaElectionResult(asked.topic, partitions))
    return ElectLeadersResponse(
        error_code=ErrorCode.none if knows_type else ErrorCode.invalid_request,
        replica_election_results=results,
    )


def _outcome(image: ClusterImage, topic: str, partition: int) -> PartitionResult:
    if image.topic(topic) is None:
        return PartitionResult(partition, ErrorCode.unknown_topic_or_partition, f"No such topic as {topic}")
    if image.partition(topic, partition) is None:
        return PartitionResult(
            partition, ErrorCode.unknown_topic_or_partition, f"No such partition as {topic}-{partition}"
        )
    return PartitionResult(
        partition, ErrorCode.election_not_needed, "Leader election not needed for topic partition."
    )
