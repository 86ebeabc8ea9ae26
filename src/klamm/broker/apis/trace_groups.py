"""TraceGroups, an API of klamm's own: requests of groups as they come in; see `coordinator.group.tracing`."""

from __future__ import annotations

from klamm.broker.net.context import RequestContext
from klamm.broker.services import Services
from klamm.protocol.messages.trace_groups import TraceGroupsRequest, TraceGroupsResponse


def handle(services: Services, context: RequestContext, request: TraceGroupsRequest) -> TraceGroupsResponse:
    """Switch the trace on, keep it on, and tell what was seen."""
    return services.groups.trace(request)
