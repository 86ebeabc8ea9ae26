"""The rules of the APIs about topics that no common rule fits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from klamm.access.acls import CLUSTER_NAME
from klamm.broker.config.loggers import BROKER_LOGGER
from klamm.broker.net.context import CloseConnectionError, RequestContext
from klamm.broker.security.permissions import (
    ALTER_CLUSTER_CONFIGS,
    ALTER_GROUP_CONFIGS,
    ALTER_TOPIC_CONFIGS,
    CLUSTER_ACTION,
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DELETE_CLUSTER,
    DELETE_TOPIC,
    DESCRIBE_CLUSTER_CONFIGS,
    DESCRIBE_GROUP_CONFIGS,
    DESCRIBE_TOPIC,
    DESCRIBE_TOPIC_CONFIGS,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    Permission,
)
from klamm.broker.security.rules import EachItem, Verdict, answered, in_turn, refused, without
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from klamm.protocol.types import ZERO_ID
from klamm.storage.cluster import ConfigResourceType

if TYPE_CHECKING:
    from klamm.broker.services import Services

_TOPIC_REFUSED: Final = ErrorCode.topic_authorization_failed
_ATTRIBUTES_AT: Final = 22  # the low byte of a batch's attributes
_TRANSACTIONAL_BIT: Final = 0x10


def topic_name(services: Services, topic: Any) -> str | None:
    """The name of a topic that a request names, or has the id of; None for an unknown id."""
    if topic.topic_id == ZERO_ID:
        return str(topic.name)
    found = services.image.topic_by_id(topic.topic_id)
    return None if found is None else found.name


def split(
    services: Services, context: RequestContext, topics: Iterable[Any], needs: Permission
) -> tuple[list[Any], list[Any]]:
    """Topics by name or id: those that are allowed or unknown, and the others."""
    rest: list[Any] = []
    denied: list[Any] = []
    allows = services.authorizer.allows
    for topic in topics:
        name = topic_name(services, topic)
        (rest if name is None or allows(context, needs, name) else denied).append(topic)
    return rest, denied


def produce(services: Services, context: RequestContext, request: Any) -> Verdict | None:
    """A transactional id for transactional batches, then each topic."""
    if (
        request.transactional_id is not None
        and not services.authorizer.allows(context, WRITE_TRANSACTIONAL_ID, request.transactional_id)
        and _is_transactional(request)
    ):
        _close_if_unanswered(request, f"transactional id {request.transactional_id!r}")
        code = ErrorCode.transactional_id_authorization_failed
        return answered(refused(ApiKey.PRODUCE, request, code, None))
    rest, denied = split(services, context, request.topic_data, WRITE_TOPIC)
    if not denied:
        return None
    _close_if_unanswered(request, f"topic {topic_name(services, denied[0])!r}")
    return without(ApiKey.PRODUCE, request, "topic_data", "responses", denied, rest, _TOPIC_REFUSED, None)


def _is_transactional(request: Any) -> bool:
    return any(
        data.records is not None
        and len(data.records) > _ATTRIBUTES_AT
        and data.records[_ATTRIBUTES_AT] & _TRANSACTIONAL_BIT
        for topic in request.topic_data
        for data in topic.partition_data
    )


def _close_if_unanswered(request: Any, resource: str) -> None:
    if request.acks == 0:
        raise CloseConnectionError(f"WRITE on {resource} is not allowed")


def metadata(services: Services, context: RequestContext, request: Any) -> Verdict | None:
    """Named topics are refused, also where they might be created; of all topics, others are left out."""
    asked = request.topics
    if asked is None or (not asked and request.empty_means_all):
        shows = services.authorizer.shows
        return Verdict(
            request,
            lambda response: response.but(
                topics=[each for each in response.topics if shows(context, DESCRIBE_TOPIC, each.name)]
            ),
        )
    if any(topic.topic_id != ZERO_ID for topic in asked):
        if not request.may_ask_by_id:
            return None  # refused for that
        asked = [topic for topic in asked if topic.topic_id != ZERO_ID]  # as Kafka, of a mixed request
    elif any(topic.name is None for topic in asked):
        return None  # the same
    rest, denied = split(services, context, asked, DESCRIBE_TOPIC)
    if request.allow_auto_topic_creation and services.config.auto_create_topics_enable:
        for topic in list(rest):
            is_missing = topic.topic_id == ZERO_ID and services.image.topic(topic.name) is None
            if is_missing and not _may_create(services, context, topic.name):
                rest.remove(topic)
                denied.append(topic)
    if not denied:
        return None
    refusal = refused(ApiKey.METADATA, request.but(topics=denied), _TOPIC_REFUSED)
    for topic in refusal.topics:
        if topic.topic_id != ZERO_ID:
            topic.name = None
    # Without any topic the brokers are described all the same.
    return Verdict(
        request.but(topics=rest, empty_means_all=False),
        lambda response: response.but(topics=[*response.topics, *refusal.topics]),
    )


def _may_create(services: Services, context: RequestContext, name: str) -> bool:
    authorizer = services.authorizer
    return authorizer.shows(context, CREATE_CLUSTER, CLUSTER_NAME) or authorizer.allows(
        context, CREATE_TOPIC, name
    )


_named_partitions: Final = EachItem(
    ApiKey.DESCRIBE_TOPIC_PARTITIONS, DESCRIBE_TOPIC, "topics", "topics", "name", message=None
)


def describe_topic_partitions(services: Services, context: RequestContext, request: Any) -> Verdict | None:
    """Of all topics, those that may be seen: the pages are made of them."""
    if request.topics:
        return _named_partitions(services, context, request)
    shows = services.authorizer.shows
    names = [name for name in services.image.topics if shows(context, DESCRIBE_TOPIC, name)]
    if len(names) == len(services.image.topics):
        return None
    cursor = request.cursor
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
        if names and cursor.topic_name not in names:
            cursor = cursor.but(topic_name=min(names), partition_index=0)
    if not names:
        return answered(DescribeTopicPartitionsResponse())
    topics = [TopicRequest(name) for name in names]
    return Verdict(request.but(topics=topics, cursor=cursor), lambda response: response)


_epochs_of: Final = EachItem(ApiKey.OFFSET_FOR_LEADER_EPOCH, DESCRIBE_TOPIC, "topics", "topics", "topic")


def epochs(services: Services, context: RequestContext, request: Any) -> Verdict | None:
    """Brokers may, of any topic."""
    if services.authorizer.shows(context, CLUSTER_ACTION, CLUSTER_NAME):
        return None
    return _epochs_of(services, context, request)


def create_topics(services: Services, context: RequestContext, request: Any) -> Verdict | None:
    """To create, and to read what was created."""
    authorizer = services.authorizer
    rest, denied = list(request.topics), []
    if not authorizer.shows(context, CREATE_CLUSTER, CLUSTER_NAME):
        denied = [each for each in rest if not authorizer.allows(context, CREATE_TOPIC, each.name)]
        refused_names = {each.name for each in denied}
        rest = [each for each in rest if each.name not in refused_names]
    hidden = {each.name for each in rest if not authorizer.shows(context, DESCRIBE_TOPIC_CONFIGS, each.name)}
    if not denied and not hidden:
        return None

    def finish(response: Any) -> Any:
        return response.but(
            topics=[
                each.but(
                    topic_config_error_code=int(_TOPIC_REFUSED),
                    num_partitions=-1,
                    replication_factor=-1,
                    configs=[],
                )
                if each.name in hidden and not each.error_code
                else each
                for each in response.topics
            ]
        )

    if not denied:
        return Verdict(request, finish)
    refusal = without(
        ApiKey.CREATE_TOPICS,
        request,
        "topics",
        "topics",
        denied,
        rest,
        _TOPIC_REFUSED,
        "Authorization failed.",
    )
    if refusal.request is None:
        return refusal
    return Verdict(refusal.request, lambda response: refusal.finish(finish(response)))


def delete_topics(services: Services, context: RequestContext, request: Any) -> Verdict | None:
    """To see each topic, then to delete it; or to delete whatever the cluster has."""
    if services.authorizer.shows(context, DELETE_CLUSTER, CLUSTER_NAME):
        return None
    fields = [("topics", request.topics), ("topic_names", request.topic_names)]
    changes: dict[str, Any] = {}
    refusals: list[Any] = []
    for field, asked in fields:
        rest: list[Any] = []
        for each in asked:
            name, is_by_id = _deleted_name(services, each)
            if name is None:
                rest.append(each)  # unknown, or named in two ways
                continue
            is_seen = services.authorizer.allows(context, DESCRIBE_TOPIC, name)
            if is_seen and services.authorizer.allows(context, DELETE_TOPIC, name):
                rest.append(each)
                continue
            refusal = refused(ApiKey.DELETE_TOPICS, _deleting(request, field, each), _TOPIC_REFUSED)
            (result,) = refusal.responses
            if is_by_id:
                result.name = name if is_seen else None
            elif is_seen and services.image.topic(name) is None:
                result.error_code = int(ErrorCode.unknown_topic_or_partition)
                result.error_message = "This server does not host this topic-partition."
            refusals.append(result)
        changes[field] = rest
    if not refusals:
        return None
    response_class = type(refused(ApiKey.DELETE_TOPICS, _deleting(request, "topics", None), _TOPIC_REFUSED))
    if not any(changes.values()):
        return answered(response_class(responses=refusals))
    return Verdict(
        request.but(**changes),
        lambda response: response.but(responses=[*response.responses, *refusals]),
    )


def _deleting(request: Any, field: str, item: Any) -> Any:
    return request.but(**({"topics": (), "topic_names": ()} | ({field: (item,)} if item is not None else {})))


def _deleted_name(services: Services, asked: Any) -> tuple[str | None, bool]:
    """The name of a topic to delete, if it is known; and whether it is named by its id."""
    if isinstance(asked, str):
        return asked, False
    if (asked.name is None) == (asked.topic_id == ZERO_ID):
        return None, False
    return topic_name(services, asked), asked.name is None


class Configs:
    """Configurations of topics, brokers, groups: each needs the permission of its type."""

    def __init__(self, api_key: ApiKey, answers: str, *, changes: bool) -> None:
        self._api_key = api_key
        self._answers = answers
        cluster = ALTER_CLUSTER_CONFIGS if changes else DESCRIBE_CLUSTER_CONFIGS
        self._needs: dict[int, Permission] = {
            ConfigResourceType.TOPIC: ALTER_TOPIC_CONFIGS if changes else DESCRIBE_TOPIC_CONFIGS,
            ConfigResourceType.GROUP: ALTER_GROUP_CONFIGS if changes else DESCRIBE_GROUP_CONFIGS,
            ConfigResourceType.BROKER: cluster,
            BROKER_LOGGER: cluster,
            ConfigResourceType.CLIENT_METRICS: cluster,
        }

    def __call__(self, services: Services, context: RequestContext, request: Any) -> Verdict | None:
        verdicts = [self._of_type(services, context, kind) for kind in {*self._needs.values()}]
        return in_turn(*verdicts)(services, context, request)

    def _of_type(self, services: Services, context: RequestContext, needs: Permission) -> Any:
        def screen(services: Services, context: RequestContext, request: Any) -> Verdict | None:
            rest: list[Any] = []
            denied: list[Any] = []
            for each in request.resources:
                name = each.resource_name if needs.resource_type.name != "CLUSTER" else CLUSTER_NAME
                is_other = self._needs.get(each.resource_type) is not needs
                is_allowed = is_other or services.authorizer.allows(context, needs, name)
                (rest if is_allowed else denied).append(each)
            if not denied:
                return None
            return without(self._api_key, request, "resources", self._answers, denied, rest, needs.refusal)

        return screen
