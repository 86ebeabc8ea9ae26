"""CreatePartitions: a topic grows; the new partitions serve when the answer leaves."""

from __future__ import annotations

from klamm.broker.cluster.refusal import Refusal
from klamm.broker.net.context import RequestContext
from klamm.broker.services import Services
from klamm.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)


async def handle(
    services: Services, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Add what can be added; the rest is told why not."""
    outcomes = await services.topics.grow(request.topics, validate_only=request.validate_only)
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name, each.error_code, each.message)
            if isinstance(each, Refusal)
            else CreatePartitionsTopicResult(name)
            for name, each in outcomes.items()
        ]
    )
