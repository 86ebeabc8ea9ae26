"""The rules of the APIs about groups that no common rule fits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from klamm.access.acls import CLUSTER_NAME
from klamm.broker.net.context import RequestContext
from klamm.broker.security.permissions import (
    DELETE_GROUP,
    DESCRIBE_CLUSTER,
    DESCRIBE_GROUP,
    DESCRIBE_TOPIC,
    DESCRIBE_TRANSACTIONAL_ID,
    READ_GROUP,
    READ_TOPIC,
    Permission,
)
from klamm.broker.security.rules import MESSAGES, Verdict, Whole, answered, in_turn, refused, without
from klamm.broker.security.topic_rules import split
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse, DescribedGroup
from klamm.protocol.messages.offset_delete import (
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from klamm.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from klamm.broker.services import Services

_OF_KEY_TYPE: Final = {0: DESCRIBE_GROUP, 1: DESCRIBE_TRANSACTIONAL_ID}
_TOPIC_REFUSED: Final = ErrorCode.topic_authorization_failed
_joins_group: Final = Whole(ApiKey.SYNC_GROUP, READ_GROUP, field="group_id")


def consumer_group_heartbeat(services: Services, context: RequestContext, request: Any) -> Verdict | None:
    """To read the group, then to see each topic that is named; those of a pattern are looked for later."""
    allows = services.authorizer.allows
    code = ErrorCode.none
    if not allows(context, READ_GROUP, request.group_id):
        code = ErrorCode.group_authorization_failed
    elif not all(allows(context, DESCRIBE_TOPIC, name) for name in request.subscribed_topic_names or ()):
        code = _TOPIC_REFUSED
    if code is ErrorCode.none:
        return None
    return answered(refused(ApiKey.CONSUMER_GROUP_HEARTBEAT, request, code, None))


def consumer_group_describe(services: Services, context: RequestContext, request: Any) -> Verdict | None:
    """To describe each group."""
    allows = services.authorizer.allows
    denied = [name for name in request.group_ids if not allows(context, DESCRIBE_GROUP, name)]
    if not denied:
        return None
    code = ErrorCode.group_authorization_failed
    refusals = [DescribedGroup(int(code), MESSAGES[code], name) for name in denied]
    rest = [name for name in request.group_ids if allows(context, DESCRIBE_GROUP, name)]
    if not rest:
        return answered(ConsumerGroupDescribeResponse(groups=refusals))
    return Verdict(
        request.but(group_ids=rest),
        lambda response: response.but(groups=[*response.groups, *refusals]),
    )


def find_coordinator(services: Services, context: RequestContext, request: Any) -> Verdict | None:
    """The group or the transactional id of each key."""
    needs: Permission | None = _OF_KEY_TYPE.get(request.key_type)
    if needs is None:
        return None  # refused for that
    allows = services.authorizer.allows
    if not request.is_batched:
        if allows(context, needs, request.key):
            return None
        refusal = refused(ApiKey.FIND_COORDINATOR, request, needs.refusal)
        refusal.node_id = refusal.port = -1
        return answered(refusal)
    denied = [key for key in request.coordinator_keys if not allows(context, needs, key)]
    if not denied:
        return None
    rest = [key for key in request.coordinator_keys if allows(context, needs, key)]
    return without(
        ApiKey.FIND_COORDINATOR, request, "coordinator_keys", "coordinators", denied, rest, needs.refusal, ""
    )


def sync_group(services: Services, context: RequestContext, request: Any) -> Verdict | None:
    """What the request must name comes first, as in Kafka."""
    if request.must_name_protocol and (request.protocol_type is None or request.protocol_name is None):
        return None  # refused for that
    return _joins_group(services, context, request)


def _committed_topics(services: Services, context: RequestContext, request: Any) -> Verdict | None:
    rest, denied = split(services, context, request.topics, READ_TOPIC)
    if not denied:
        return None
    return without(ApiKey.OFFSET_COMMIT, request, "topics", "topics", denied, rest, _TOPIC_REFUSED)


offset_commit: Final = in_turn(Whole(ApiKey.OFFSET_COMMIT, READ_GROUP, field="group_id"), _committed_topics)


def _deleted_offsets(services: Services, context: RequestContext, request: Any) -> Verdict | None:
    rest: list[Any] = []
    denied: list[Any] = []
    for each in request.topics:
        is_allowed = services.authorizer.allows(context, READ_TOPIC, each.name)
        (rest if is_allowed else denied).append(each)
    if not denied:
        return None
    code = int(_TOPIC_REFUSED)
    refusals = [
        OffsetDeleteResponseTopic(
            topic.name,
            [OffsetDeleteResponsePartition(each.partition_index, code) for each in topic.partitions],
        )
        for topic in denied
    ]
    # Without any topic left the group is still looked for, as in Kafka.
    return Verdict(
        request.but(topics=rest),
        lambda response: (
            response if response.error_code else response.but(topics=[*response.topics, *refusals])
        ),
    )


offset_delete: Final = in_turn(Whole(ApiKey.OFFSET_DELETE, DELETE_GROUP, field="group_id"), _deleted_offsets)


def list_groups(services: Services, context: RequestContext, request: Any) -> Verdict | None:
    """Who may describe the cluster sees all groups, others those that they may describe."""
    shows = services.authorizer.shows
    if shows(context, DESCRIBE_CLUSTER, CLUSTER_NAME):
        return None
    return Verdict(
        request,
        lambda response: response.but(
            groups=[each for each in response.groups if shows(context, DESCRIBE_GROUP, each.group_id)]
        ),
    )


def offset_fetch(services: Services, context: RequestContext, request: Any) -> Verdict | None:
    """To describe each group, then its topics; where all topics are asked for, others are left out."""
    if request.is_batched:
        return _offsets_of_groups(services, context, request)
    if not services.authorizer.allows(context, DESCRIBE_GROUP, request.group_id):
        return answered(_group_refused(request))
    shows = services.authorizer.shows
    if request.topics is None:
        return Verdict(
            request,
            lambda response: response.but(
                topics=[each for each in response.topics if shows(context, DESCRIBE_TOPIC, each.name)]
            ),
        )
    allows = services.authorizer.allows
    rest = [each for each in request.topics if allows(context, DESCRIBE_TOPIC, each.name)]
    if len(rest) == len(request.topics):
        return None
    denied = [each for each in request.topics if not allows(context, DESCRIBE_TOPIC, each.name)]
    refusals = [_refused_topic(each, _TOPIC_REFUSED) for each in denied]
    return Verdict(
        request.but(topics=rest),
        lambda response: (
            response if response.error_code else response.but(topics=[*response.topics, *refusals])
        ),
    )


def _group_refused(request: Any) -> OffsetFetchResponse:
    code = ErrorCode.group_authorization_failed
    if request.has_top_level_error:
        return OffsetFetchResponse(error_code=int(code))
    return OffsetFetchResponse(topics=[_refused_topic(each, code) for each in request.topics or ()])


def _refused_topic(topic: Any, code: ErrorCode) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        topic.name,
        [OffsetFetchResponsePartition(index, -1, -1, "", int(code)) for index in topic.partition_indexes],
    )


def _refused_of_group(topic: Any) -> OffsetFetchResponseTopics:
    code = int(_TOPIC_REFUSED)
    return OffsetFetchResponseTopics(
        topic.topic_id,
        topic.name,
        [OffsetFetchResponsePartitions(index, -1, -1, "", code) for index in topic.partition_indexes],
    )


def _offsets_of_groups(services: Services, context: RequestContext, request: Any) -> Verdict | None:
    allows, shows = services.authorizer.allows, services.authorizer.shows
    parts: list[Any] = []  # of the request to the handler
    finishes: list[Any] = []  # for each group asked for: its refusal, or what its answer becomes
    is_complete = True
    for group in request.groups:
        if not allows(context, DESCRIBE_GROUP, group.group_id):
            code = int(ErrorCode.group_authorization_failed)
            finishes.append(OffsetFetchResponseGroup(group.group_id, [], code))
            is_complete = False
            continue
        if group.topics is None:
            finishes.append(lambda topic: shows(context, DESCRIBE_TOPIC, topic.name))
            parts.append(group)
            is_complete = False
            continue
        rest, denied = split(services, context, group.topics, DESCRIBE_TOPIC)
        parts.append(group.but(topics=rest) if denied else group)
        finishes.append([_refused_of_group(topic) for topic in denied])
        is_complete = is_complete and not denied
    if is_complete:
        return None

    def finish(response: OffsetFetchResponse | None) -> OffsetFetchResponse:
        answers = iter(() if response is None else response.groups)
        return OffsetFetchResponse(groups=[_group_answer(each, answers) for each in finishes])

    return Verdict(request.but(groups=parts) if parts else None, finish)


def _group_answer(finish: Any, answers: Iterator[OffsetFetchResponseGroup]) -> OffsetFetchResponseGroup:
    if isinstance(finish, OffsetFetchResponseGroup):
        return finish
    answer = next(answers)
    if answer.error_code:
        return answer
    if isinstance(finish, list):
        return answer.but(topics=[*answer.topics, *finish])
    return answer.but(topics=[each for each in answer.topics if finish(each)])
