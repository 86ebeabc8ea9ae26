"""CreatePartitions: the new partitions are served when the response is sent."""

from __future__ import annotations

from klamm.broker.cluster.refusal import Refusal
from klamm.broker.cluster.topic_plans import GrowthPlan, duplicates
from klamm.broker.net.context import RequestContext
from klamm.broker.quotas.mutations import EXCEEDED, within_quota
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
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
    admitted, refused, throttle_ms = within_quota(
        services,
        context,
        request.topics,
        lambda each: _added_count(services, each),
        is_strict=request.knows_throttling,
    )
    outcomes: dict[str, GrowthPlan | Refusal] = {each.name: EXCEEDED for each in refused}
    outcomes |= await services.topics.grow(admitted, validate_only=request.validate_only)
    return CreatePartitionsResponse(
        throttle_ms,
        [
            CreatePartitionsTopicResult(name, each.error_code, each.message)
            if isinstance(each, Refusal)
            else CreatePartitionsTopicResult(name)
            for name, each in outcomes.items()
        ],
    )


def _added_count(services: Services, asked: CreatePartitionsTopic) -> int:
    topic = services.image.topic(asked.name)
    return 0 if topic is None else max(0, asked.count - len(topic.partitions))
