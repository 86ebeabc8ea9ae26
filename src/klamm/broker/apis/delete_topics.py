"""DeleteTopics: by name, from version 6 on also by id. The name is free when the response is sent."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.broker.cluster.image import ClusterImage
from klamm.broker.cluster.topic_names import is_internal
from klamm.broker.cluster.topic_plans import duplicates
from klamm.broker.net.context import RequestContext
from klamm.broker.quotas.mutations import EXCEEDED, within_quota
from klamm.broker.services import Services
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from klamm.protocol.types import ZERO_ID
from klamm.storage.cluster import TopicState


async def handle(
    services: Services, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    """Delete each topic, or return the error of that topic."""
    asked = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    if not services.config.delete_topic_enable:
        error_code = (
            ErrorCode.topic_deletion_disabled
            if request.knows_deletion_disabled
            else ErrorCode.invalid_request
        )
        message = "Topic deletion is disabled: start the broker with delete.topic.enable=true."
        return DeleteTopicsResponse(responses=[_refused(each, error_code, message) for each in asked])
    if request.timeout_ms <= 0 and _names_a_topic(asked):
        # As Kafka: nothing is done for who does not wait.
        timed_out = ErrorCode.request_timed_out
        return DeleteTopicsResponse(responses=[_refused(each, timed_out, None) for each in asked])
    decided = decide(services.image, asked)
    if any(isinstance(each, DeletableTopicResult) for each in decided) and await services.topics.look_again():
        decided = decide(services.image, asked)
    doomed = [each for each in decided if isinstance(each, TopicState)]
    admitted, refused, throttle_ms = within_quota(
        services,
        context,
        doomed,
        lambda topic: len(topic.partitions),
        is_strict=request.knows_throttling,
    )
    refusals = {topic.name: EXCEEDED for topic in refused}
    refusals |= await services.topics.delete(admitted) if admitted else {}
    responses = []
    for each in decided:
        if isinstance(each, DeletableTopicResult):
            responses.append(each)
            continue
        result = DeletableTopicResult(name=each.name, topic_id=each.topic_id)
        if each.name in refusals:
            result.error_code = refusals[each.name].error_code
            result.error_message = refusals[each.name].message
        responses.append(result)
    return DeleteTopicsResponse(throttle_ms, responses)


def _names_a_topic(asked: Sequence[DeleteTopicState]) -> bool:
    """Whether an entry names a topic, and no other entry names it in the same way."""
    names = [each.name for each in asked if each.name is not None and each.topic_id == ZERO_ID]
    ids = [each.topic_id for each in asked if each.name is None and each.topic_id != ZERO_ID]
    return bool(set(names) - duplicates(names) or set(ids) - duplicates(ids))


def decide(image: ClusterImage, asked: Sequence[DeleteTopicState]) -> list[TopicState | DeletableTopicResult]:
    """The topic or the error of each entry; repeated entries get one result."""
    unclear = [each for each in asked if (each.name is None) == (each.topic_id == ZERO_ID)]
    names = [each.name for each in asked if each.name is not None and each.topic_id == ZERO_ID]
    ids = [each.topic_id for each in asked if each.name is None and each.topic_id != ZERO_ID]
    decided: list[TopicState | DeletableTopicResult] = [
        _refused(
            each,
            ErrorCode.invalid_request,
            "Neither topic name nor id were specified."
            if each.name is None
            else "You may not specify both topic name and topic id.",
        )
        for each in unclear
    ]
    repeated_names, repeated_ids = duplicates(names), duplicates(ids)
    for topic_id in dict.fromkeys(ids):
        topic = image.topic_by_id(topic_id)
        is_repeated = topic_id in repeated_ids
        # A topic that is also named has its result there.
        if is_repeated or topic is None or topic.name not in set(names) - repeated_names:
            decided.append(_by_id(image, topic_id, is_repeated))
    for name in dict.fromkeys(names):
        decided.append(_by_name(image, name, name in repeated_names, ids))
    return decided


def _by_id(image: ClusterImage, topic_id: bytes, is_repeated: bool) -> TopicState | DeletableTopicResult:
    asked = DeleteTopicState(topic_id=topic_id)
    if is_repeated:
        return _refused(asked, ErrorCode.invalid_request, "Duplicate topic id.")
    topic = image.topic_by_id(topic_id)
    if topic is None:
        return _refused(asked, ErrorCode.unknown_topic_id, "This server does not host this topic ID.")
    return topic if not is_internal(topic.name) else _internal(asked, topic.name)


def _by_name(
    image: ClusterImage, name: str, is_repeated: bool, ids: Sequence[bytes]
) -> TopicState | DeletableTopicResult:
    asked = DeleteTopicState(name=name)
    if is_repeated:
        return _refused(asked, ErrorCode.invalid_request, "Duplicate topic name.")
    topic = image.topic(name)
    if topic is None:
        return _refused(
            asked, ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition."
        )
    if topic.topic_id in ids:
        return _refused(
            DeleteTopicState(name, topic.topic_id),
            ErrorCode.invalid_request,
            "The provided topic name maps to an ID that was already supplied.",
        )
    return topic if not is_internal(name) else _internal(asked, name)


def _internal(asked: DeleteTopicState, name: str) -> DeletableTopicResult:
    return _refused(
        asked, ErrorCode.invalid_topic_exception, f"Topic '{name}' is internal: the broker needs it."
    )


def _refused(asked: DeleteTopicState, error_code: ErrorCode, message: str | None) -> DeletableTopicResult:
    return DeletableTopicResult(asked.name, asked.topic_id, error_code, message)
