"""DeleteGroups: forget groups without members."""

from __future__ import annotations

from klamm.broker.net.context import Answer, RequestContext
from klamm.broker.services import Services
from klamm.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse


def handle(
    services: Services, context: RequestContext, request: DeleteGroupsRequest
) -> Answer[DeleteGroupsResponse]:
    """The coordinator's answer, when it is durable."""
    return services.groups.ask(request, context)
