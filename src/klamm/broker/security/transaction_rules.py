"""The rules of the APIs about transactions that no common rule fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from klamm.access.acls import CLUSTER_NAME, AclOperation, ResourceType
from klamm.broker.net.context import RequestContext
from klamm.broker.security.permissions import (
    CLUSTER_ACTION,
    DESCRIBE_TOPIC,
    DESCRIBE_TRANSACTIONAL_ID,
    IDEMPOTENT_WRITE,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    Permission,
)
from klamm.broker.security.rules import EachItem, Verdict, answered, refused
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from klamm.protocol.messages.init_producer_id import InitProducerIdResponse

if TYPE_CHECKING:
    from klamm.broker.services import Services

_TWO_PHASE_COMMIT: Final = Permission(ResourceType.TRANSACTIONAL_ID, AclOperation.TWO_PHASE_COMMIT)
_described: Final = EachItem(
    ApiKey.DESCRIBE_TRANSACTIONS, DESCRIBE_TRANSACTIONAL_ID, "transactional_ids", "transaction_states"
)


def init_producer_id(services: Services, context: RequestContext, request: Any) -> Verdict | None:
    """An idempotent producer needs to write to any topic, or the right to be one."""
    authorizer, name = services.authorizer, request.transactional_id
    if name is None:
        if authorizer.allows_any(context, WRITE_TOPIC):
            return None
        is_allowed = authorizer.allows(context, IDEMPOTENT_WRITE, CLUSTER_NAME)
        code = ErrorCode.cluster_authorization_failed
    else:
        is_allowed = authorizer.allows(context, WRITE_TRANSACTIONAL_ID, name) and (
            not request.enable2_pc or authorizer.allows(context, _TWO_PHASE_COMMIT, name)
        )
        code = ErrorCode.transactional_id_authorization_failed
    if is_allowed:
        return None
    return answered(InitProducerIdResponse(error_code=int(code), producer_id=-1, producer_epoch=-1))


def add_partitions_to_txn(services: Services, context: RequestContext, request: Any) -> Verdict | None:
    """Brokers may; for a producer nothing is added unless all may be."""
    allows = services.authorizer.allows
    if request.is_batched:
        if allows(context, CLUSTER_ACTION, CLUSTER_NAME):
            return None
        code = ErrorCode.cluster_authorization_failed
        return answered(AddPartitionsToTxnResponse(error_code=int(code)))
    if not allows(context, WRITE_TRANSACTIONAL_ID, request.v3_and_below_transactional_id):
        code = ErrorCode.transactional_id_authorization_failed
        return answered(refused(ApiKey.ADD_PARTITIONS_TO_TXN, request, code))
    topics = request.v3_and_below_topics
    denied = {topic.name for topic in topics if not allows(context, WRITE_TOPIC, topic.name)}
    if not denied:
        return None

    def error_code(topic: str, partition: int) -> int:
        if topic in denied:
            return int(ErrorCode.topic_authorization_failed)
        if services.image.partition(topic, partition) is None:
            return int(ErrorCode.unknown_topic_or_partition)
        return int(ErrorCode.operation_not_attempted)

    return answered(
        AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    topic.name,
                    [
                        AddPartitionsToTxnPartitionResult(number, error_code(topic.name, number))
                        for number in topic.partitions
                    ],
                )
                for topic in topics
            ]
        )
    )


def describe_transactions(services: Services, context: RequestContext, request: Any) -> Verdict | None:
    """Each transactional id; of its topics, those that may be seen."""
    shows = services.authorizer.shows
    verdict = _described(services, context, request)

    def finish(response: Any) -> Any:
        states = [
            state.but(topics=[each for each in state.topics if shows(context, DESCRIBE_TOPIC, each.topic)])
            for state in response.transaction_states
        ]
        return response.but(transaction_states=states)

    if verdict is None:
        return Verdict(request, finish)
    if verdict.request is None:
        return verdict
    return Verdict(verdict.request, lambda response: verdict.finish(finish(response)))


def list_transactions(services: Services, context: RequestContext, request: Any) -> Verdict | None:
    """Those that may be described."""
    shows = services.authorizer.shows
    return Verdict(
        request,
        lambda response: response.but(
            transaction_states=[
                each
                for each in response.transaction_states
                if shows(context, DESCRIBE_TRANSACTIONAL_ID, each.transactional_id)
            ]
        ),
    )
