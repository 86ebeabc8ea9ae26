"""CreatePartitions: the new partitions are served when the response is sent."""

from __future__ import annotations

from klamm.broker.cluster.refusal import Refusal
from klamm.broker.cluster.topic_plans import duplicates
from klamm.broker.net.context import RequestContext
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)


async def handle(
    services: Services, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Add partitions to each topic, or return the error of that topic."""
    names = [each.name for each in request.topics]
    if request.timeout_ms <= 0 and set(names) - duplicates(names):
        # As Kafka: nothing is done for who does not wait.
        timed_out = ErrorCode.request_timed_out
        return CreatePartitionsResponse(
            results=[CreatePartitionsTopicResult(each.name, timed_out) for each in request.topics]
        )
    outcomes = await services.topics.grow(request.topics, validate_only=request.validate_only)
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name, each.error_code, each.message)
            if isinstance(each, Refusal)
            else CreatePartitionsTopicResult(name)
            for name, each in outcomes.items()
        ]
    )
