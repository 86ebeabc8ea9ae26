"""ListPartitionReassignments: klamm never moves a partition, so there are none; topic tools ask anyway."""

from __future__ import annotations

from klamm.broker.net.context import RequestContext
from klamm.broker.services import Services
from klamm.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def handle(
    services: Services, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """An empty list."""
    return ListPartitionReassignmentsResponse()
