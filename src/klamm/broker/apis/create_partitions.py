"""CreatePartitions: the new partitions are served when the response is sent."""

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
    """Add partitions to each topic, or return the error of that topic."""
    outcomes = await services.topics.grow(request.topics, validate_only=request.validate_only)
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name, each.error_code, each.message)
            if isinstance(each, Refusal)
            else CreatePartitionsTopicResult(name)
            for name, each in outcomes.items()
        ]
    )
