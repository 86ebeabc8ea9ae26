"""OffsetFetch: what groups have committed."""

from __future__ import annotations

from klamm.broker.net.context import Answer, RequestContext
from klamm.broker.services import Services
from klamm.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse


def handle(
    services: Services, context: RequestContext, request: OffsetFetchRequest
) -> Answer[OffsetFetchResponse]:
    """The coordinator's answer."""
    return services.groups.ask(request, context)
