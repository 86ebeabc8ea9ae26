"""ListPartitionReassignments: partitions whose leader is about to hand them over to their new replicas."""

from __future__ import annotations

from klamm.broker.net.context import RequestContext
from klamm.broker.services import Services
from klamm.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def handle(
    services: Services, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """The requested partitions that are on their way; null requests all."""
    wanted = None
    if request.topics is not None:
        wanted = {(topic.name, index) for topic in request.topics for index in topic.partition_indexes}
    topics = []
    for name, topic in sorted(services.image.topics.items()):
        ongoing = [
            OngoingPartitionReassignment(
                state.partition,
                replicas=(*state.replicas, state.leader_id),
                adding_replicas=state.replicas,
                removing_replicas=(state.leader_id,),
            )
            for state in topic.partitions
            if state.moving_to in state.replicas and state.leader_id not in state.replicas
            if wanted is None or (name, state.partition) in wanted
        ]
        if ongoing:
            topics.append(OngoingTopicReassignment(name, ongoing))
    return ListPartitionReassignmentsResponse(topics=topics)
