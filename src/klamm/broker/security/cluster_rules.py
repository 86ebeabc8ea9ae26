"""The rules of the APIs about the cluster that no common rule fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from klamm.access.acls import CLUSTER_NAME
from klamm.broker.net.context import RequestContext
from klamm.broker.security.permissions import (
    ALTER_CLUSTER_CONFIGS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CLUSTER_CONFIGS,
)
from klamm.broker.security.rules import MESSAGES, Verdict, answered
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.alter_client_quotas import AlterClientQuotasResponse, EntityData, EntryResult
from klamm.protocol.messages.describe_client_quotas import DescribeClientQuotasResponse
from klamm.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from klamm.broker.services import Services

_REFUSED: Final = ErrorCode.cluster_authorization_failed


def describe_client_quotas(services: Services, context: RequestContext, request: Any) -> Verdict | None:
    """A refusal has no entries, which is not the same as none that match."""
    if services.authorizer.allows(context, DESCRIBE_CLUSTER_CONFIGS, CLUSTER_NAME):
        return None
    return answered(
        DescribeClientQuotasResponse(error_code=int(_REFUSED), error_message=MESSAGES[_REFUSED], entries=None)
    )


def alter_client_quotas(services: Services, context: RequestContext, request: Any) -> Verdict | None:
    """Each entry is refused under its entity."""
    if services.authorizer.allows(context, ALTER_CLUSTER_CONFIGS, CLUSTER_NAME):
        return None
    return answered(
        AlterClientQuotasResponse(
            entries=[
                EntryResult(
                    int(_REFUSED),
                    MESSAGES[_REFUSED],
                    [EntityData(each.entity_type, each.entity_name) for each in entry.entity],
                )
                for entry in request.entries
            ]
        )
    )


def list_partition_reassignments(services: Services, context: RequestContext, request: Any) -> Verdict | None:
    """A refusal has the partitions that were asked for, and nothing of them."""
    if services.authorizer.allows(context, DESCRIBE_CLUSTER, CLUSTER_NAME):
        return None
    asked = [
        OngoingTopicReassignment(
            each.name, [OngoingPartitionReassignment(number) for number in each.partition_indexes]
        )
        for each in request.topics or ()
    ]
    return answered(ListPartitionReassignmentsResponse(0, int(_REFUSED), MESSAGES[_REFUSED], asked))
