"""JoinGroup: a member wants in, or must join again."""

from __future__ import annotations

from klamm.broker.net.context import Answer, RequestContext
from klamm.broker.services import Services
from klamm.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse


def handle(
    services: Services, context: RequestContext, request: JoinGroupRequest
) -> Answer[JoinGroupResponse]:
    """The coordinator's answer, or a wait for the other members."""
    return services.groups.join(request, context)
