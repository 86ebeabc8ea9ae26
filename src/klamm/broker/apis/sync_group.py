"""SyncGroup: the leader brings assignments, everybody fetches theirs."""

from __future__ import annotations

from klamm.broker.net.context import Answer, RequestContext
from klamm.broker.services import Services
from klamm.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def handle(
    services: Services, context: RequestContext, request: SyncGroupRequest
) -> Answer[SyncGroupResponse]:
    """The coordinator's answer, or a wait for the leader."""
    return services.groups.ask_parked(request, context)
