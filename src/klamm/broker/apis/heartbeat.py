"""Heartbeat: a member says that it is alive."""

from __future__ import annotations

from klamm.broker.net.context import Answer, RequestContext
from klamm.broker.services import Services
from klamm.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(
    services: Services, context: RequestContext, request: HeartbeatRequest
) -> Answer[HeartbeatResponse]:
    """The coordinator's answer."""
    return services.groups.ask(request, context)
