"""LeaveGroup: members go, or are made to go."""

from __future__ import annotations

from klamm.broker.net.context import Answer, RequestContext
from klamm.broker.services import Services
from klamm.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


def handle(
    services: Services, context: RequestContext, request: LeaveGroupRequest
) -> Answer[LeaveGroupResponse]:
    """The coordinator's answer, when it is durable."""
    return services.groups.ask(request, context)
