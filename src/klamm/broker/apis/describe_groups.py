"""DescribeGroups: groups as their coordinator describes them, with the operations that the client may do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from klamm.access.acls import ResourceType
from klamm.broker.net.context import HandlerResult, HeldResponse, ParkedResponse, RequestContext
from klamm.broker.partitions.verification import kept
from klamm.broker.services import Services
from klamm.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from klamm.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

Described = TypeVar("Described", DescribeGroupsResponse, ConsumerGroupDescribeResponse)


def handle(
    services: Services, context: RequestContext, request: DescribeGroupsRequest
) -> HandlerResult[DescribeGroupsResponse]:
    """Ask the coordinator; the authorized operations are the authorizer's."""
    found = services.groups.ask(request, context, ParkedResponse())  # it may take several turns of the loop
    if not request.include_authorized_operations:
        return found
    return then(services, found, partial(with_operations, services, context))


def then(
    services: Services, found: Described | HeldResponse[Described], finish: Callable[[Described], Described]
) -> HandlerResult[Described]:
    """The response, finished; later if it waits for the disk."""
    return _later(services, found, finish) if isinstance(found, HeldResponse) else finish(found)


async def _later(
    services: Services, held: HeldResponse[Described], finish: Callable[[Described], Described]
) -> Described:
    return finish(await kept(services.loop, held))


def with_operations(services: Services, context: RequestContext, response: Described) -> Described:
    """The response, with what its client may do with each group."""
    for group in response.groups:
        if not group.error_code:
            group.authorized_operations = services.authorizer.operations(
                context, ResourceType.GROUP, group.group_id
            )
    return response
