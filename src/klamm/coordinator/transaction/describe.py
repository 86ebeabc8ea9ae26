"""DescribeTransactions and ListTransactions, for the ids of one shard."""

from __future__ import annotations

from collections.abc import Iterable

from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.coordinator.transaction.patterns import compile_pattern
from klamm.coordinator.transaction.remembered import TransactionStored
from klamm.coordinator.transaction.state import (
    Transaction,
    TransactionOutcome,
    TransactionState,
    reply,
)
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
)
from klamm.protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from klamm.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from klamm.protocol.messages.list_transactions import TransactionState as ListedTransaction
from klamm.protocol.types import TopicPartition


def describe_transactions(
    state: TransactionState, request: DescribeTransactionsRequest, context: Context
) -> TransactionOutcome:
    """One id: the coordinator splits the request."""
    (transactional_id,) = request.transactional_ids
    transaction = state.transactions.get(transactional_id)
    if transaction is None:
        described = undescribed(transactional_id, ErrorCode.transactional_id_not_found)
    else:
        described = _described(transaction)
    return reply(context, DescribeTransactionsResponse(transaction_states=(described,)), transaction)


def undescribed(transactional_id: str, error_code: ErrorCode) -> DescribedTransaction:
    """The answer for an id that is not known here. Kafka leaves the numbers at zero."""
    return DescribedTransaction(
        error_code=error_code, transactional_id=transactional_id, transaction_start_time_ms=0
    )


def _described(transaction: Transaction) -> DescribedTransaction:
    stored = transaction.stored
    # While it is prepared: the partitions that it still waits for.
    partitions = stored.partitions if transaction.missing is None else transaction.missing
    return DescribedTransaction(
        transactional_id=stored.transactional_id,
        transaction_state=stored.state.label,
        transaction_timeout_ms=stored.timeout_ms,
        transaction_start_time_ms=stored.started_timestamp_ms,
        producer_id=stored.producer_id,
        producer_epoch=stored.producer_epoch,
        topics=_topics(partitions),
    )


def _topics(partitions: Iterable[TopicPartition]) -> list[TopicData]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [TopicData(topic, numbers) for topic, numbers in topics.items()]


def list_transactions(
    state: TransactionState, request: ListTransactionsRequest, context: Context
) -> TransactionOutcome:
    """The ids that pass every filter; the coordinator has checked the pattern."""
    labels = frozenset(request.state_filters)
    producer_ids = frozenset(request.producer_id_filters)
    pattern = compile_pattern(request.transactional_id_pattern) if request.transactional_id_pattern else None
    opened_before_ms = context.timestamp_ms - request.duration_filter

    def passes(stored: TransactionStored) -> bool:
        return (
            (not labels or stored.state.label in labels)
            and (not producer_ids or stored.producer_id in producer_ids)
            and (request.duration_filter < 0 or stored.started_timestamp_ms < opened_before_ms)
            and (pattern is None or pattern.fullmatch(stored.transactional_id) is not None)
        )

    listed = [
        ListedTransaction(stored.transactional_id, stored.producer_id, stored.state.label)
        for transaction in state.transactions.values()
        if passes(stored := transaction.stored)
    ]
    return Outcome(replies=((context.token, ListTransactionsResponse(transaction_states=listed)),))
