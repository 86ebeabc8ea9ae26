"""ListGroups: the groups that this broker coordinates."""

from __future__ import annotations

from klamm.broker.net.context import Answer, RequestContext
from klamm.broker.services import Services
from klamm.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse


def handle(
    services: Services, context: RequestContext, request: ListGroupsRequest
) -> Answer[ListGroupsResponse]:
    """The coordinator's answer."""
    return services.groups.ask(request, context)
