"""AddPartitionsToTxn for shards and on the wire; error codes that older clients do not have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from klamm.coordinator.transaction.requests import AddPartitions, PartitionErrors
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from klamm.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from klamm.protocol.messages.end_txn import EndTxnResponse
from klamm.protocol.messages.init_producer_id import InitProducerIdResponse
from klamm.protocol.types import TopicPartition

# One of these in a response means that nothing was added.
_REFUSED: Final = frozenset({ErrorCode.unknown_topic_or_partition, ErrorCode.topic_authorization_failed})
Answer = TypeVar("Answer", InitProducerIdResponse, EndTxnResponse, AddOffsetsToTxnResponse)


def partitions_of(topics: Iterable[AddPartitionsToTxnTopic]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic.name, number) for topic in topics for number in topic.partitions)


def add_partitions_parts(request: AddPartitionsToTxnRequest, *, client_version: int) -> list[AddPartitions]:
    """The transactions of a request from a broker; it verifies for an older producer, else it adds."""
    return [
        AddPartitions(
            transactional_id=each.transactional_id,
            producer_id=each.producer_id,
            producer_epoch=each.producer_epoch,
            partitions=partitions_of(each.topics),
            is_verify_only=each.verify_only,
            client_version=0 if each.verify_only else client_version,
        )
        for each in request.transactions
    ]


def refused_partitions(
    request: AddPartitions, has_partition: Callable[[TopicPartition], bool]
) -> PartitionErrors | None:
    """If a partition does not exist, or must not be added by a client, none is; None if all can be."""
    internal = request.internal_partitions
    missing = [partition for partition in request.partitions - internal if not has_partition(partition)]
    if not missing and not internal:
        return None
    errors = dict.fromkeys(request.partitions, ErrorCode.operation_not_attempted)
    errors.update(dict.fromkeys(missing, ErrorCode.unknown_topic_or_partition))
    errors.update(dict.fromkeys(internal, ErrorCode.topic_authorization_failed))
    return PartitionErrors(errors)


def added_response(
    request: AddPartitionsToTxnRequest, response: PartitionErrors
) -> AddPartitionsToTxnResponse:
    """The response to one producer."""
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=_topic_results(request, request.v3_and_below_topics, response)
    )


def batch_response(
    request: AddPartitionsToTxnRequest, answers: Sequence[PartitionErrors]
) -> AddPartitionsToTxnResponse:
    """The response to a broker."""
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                each.transactional_id,
                _topic_results(request, each.topics, answer, is_verify_only=each.verify_only),
            )
            for each, answer in zip(request.transactions, answers, strict=True)
        ]
    )


def _topic_results(
    request: AddPartitionsToTxnRequest,
    topics: Iterable[AddPartitionsToTxnTopic],
    response: PartitionErrors,
    *,
    is_verify_only: bool = False,
) -> list[AddPartitionsToTxnTopicResult]:
    if is_verify_only or not _REFUSED.isdisjoint(response.errors.values()):
        # Kafka answers these by partition: what is named twice once, a topic without partitions not at all.
        topics = _named_once(topics)
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(
                    number, _known_error(request, response.errors[TopicPartition(topic.name, number)])
                )
                for number in topic.partitions
            ],
        )
        for topic in topics
    ]


def _named_once(topics: Iterable[AddPartitionsToTxnTopic]) -> list[AddPartitionsToTxnTopic]:
    numbers: dict[str, dict[int, None]] = {}
    for topic in topics:
        for number in topic.partitions:
            numbers.setdefault(topic.name, {})[number] = None
    return [AddPartitionsToTxnTopic(name, list(named)) for name, named in numbers.items()]


def _known_error(request: AddPartitionsToTxnRequest, error_code: ErrorCode) -> ErrorCode:
    if error_code is ErrorCode.producer_fenced and not request.knows_producer_fenced:
        return ErrorCode.invalid_producer_epoch
    return error_code


def as_older_client_knows(response: Answer) -> Answer:
    """Clients before PRODUCER_FENCED take INVALID_PRODUCER_EPOCH for it."""
    if response.error_code == ErrorCode.producer_fenced:
        response.error_code = ErrorCode.invalid_producer_epoch
    return response
