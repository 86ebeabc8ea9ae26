"""OffsetDelete: forget committed offsets."""

from __future__ import annotations

from klamm.broker.net.context import Answer, RequestContext
from klamm.broker.services import Services
from klamm.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse


def handle(
    services: Services, context: RequestContext, request: OffsetDeleteRequest
) -> Answer[OffsetDeleteResponse]:
    """The coordinator's answer, when it is durable."""
    return services.groups.ask(request, context)
