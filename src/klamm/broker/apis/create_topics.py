"""CreateTopics: the topics are served when the response is sent. Versions 5 and later describe them."""

from __future__ import annotations

from klamm.broker.cluster.refusal import Refusal
from klamm.broker.cluster.topic_plans import TopicPlan, duplicates
from klamm.broker.config.entries import describe_topic
from klamm.broker.net.context import RequestContext
from klamm.broker.quotas.mutations import EXCEEDED, within_quota
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


async def handle(
    services: Services, context: RequestContext, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    """Create each topic, or return the error of that topic."""
    names = [each.name for each in request.topics]
    if request.timeout_ms <= 0 and set(names) - duplicates(names):
        # As Kafka: nothing is done for who does not wait.
        timed_out = ErrorCode.request_timed_out
        return CreateTopicsResponse(
            topics=[CreatableTopicResult(each.name, error_code=timed_out) for each in request.topics]
        )
    admitted, refused, throttle_ms = within_quota(
        services,
        context,
        request.topics,
        lambda each: _partition_count(services, each),
        is_strict=request.knows_throttling,
    )
    outcomes: dict[str, TopicPlan | Refusal] = {each.name: EXCEEDED for each in refused}
    outcomes |= await services.topics.create(admitted, validate_only=request.validate_only)
    return CreateTopicsResponse(
        throttle_ms,
        [
            CreatableTopicResult(name=name, error_code=each.error_code, error_message=each.message)
            if isinstance(each, Refusal)
            else _created(services, each)
            for name, each in outcomes.items()
        ],
    )


def _partition_count(services: Services, topic: CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return topic.num_partitions if topic.num_partitions > 0 else services.config.num_partitions


def _created(services: Services, plan: TopicPlan) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=plan.topic.name,
        topic_id=plan.topic.topic_id,
        num_partitions=len(plan.topic.partitions),
        replication_factor=plan.replication_factor,
        configs=[
            CreatableTopicConfigs(
                # Values are returned as the client wrote them; DescribeConfigs returns them as parsed.
                entry.name,
                plan.configs.get(entry.name, entry.value),
                entry.is_read_only,
                entry.source,
                entry.is_sensitive,
            )
            for entry in describe_topic(services.config, plan.configs)
        ],
    )
