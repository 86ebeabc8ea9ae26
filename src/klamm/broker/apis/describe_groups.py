"""DescribeGroups: groups as their coordinator describes them, with the operations that the client may do."""

from __future__ import annotations

from klamm.broker.net.context import HandlerResult, HeldResponse, RequestContext
from klamm.broker.partitions.verification import kept
from klamm.broker.security.permissions import ResourceType
from klamm.broker.services import Services
from klamm.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse


def handle(
    services: Services, context: RequestContext, request: DescribeGroupsRequest
) -> HandlerResult[DescribeGroupsResponse]:
    """Ask the coordinator; the authorized operations are the authorizer's."""
    found = services.groups.ask(request, context)
    if not request.include_authorized_operations:
        return found
    if isinstance(found, HeldResponse):
        return _when_durable(services, context, found)
    return _with_operations(services, context, found)


async def _when_durable(
    services: Services, context: RequestContext, held: HeldResponse[DescribeGroupsResponse]
) -> DescribeGroupsResponse:
    return _with_operations(services, context, await kept(services.loop, held))


def _with_operations(
    services: Services, context: RequestContext, response: DescribeGroupsResponse
) -> DescribeGroupsResponse:
    for group in response.groups:
        if not group.error_code:
            group.authorized_operations = services.authorizer.operations(
                context, ResourceType.GROUP, group.group_id
            )
    return response
