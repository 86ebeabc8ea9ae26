"""OffsetCommit: how far a group has read."""

from __future__ import annotations

from klamm.broker.net.context import Answer, RequestContext
from klamm.broker.services import Services
from klamm.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse


def handle(
    services: Services, context: RequestContext, request: OffsetCommitRequest
) -> Answer[OffsetCommitResponse]:
    """The coordinator's answer, when the commit is durable."""
    return services.groups.ask(request, context)
