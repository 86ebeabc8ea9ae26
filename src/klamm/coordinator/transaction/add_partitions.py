"""AddPartitionsToTxn and AddOffsetsToTxn: add partitions to a transaction, or verify that they were added."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.coordinator.transaction.ending import answered, client_identity
from klamm.coordinator.transaction.remembered import EPOCH_BUMP_VERSION, TransactionStored
from klamm.coordinator.transaction.requests import AddPartitions, PartitionErrors
from klamm.coordinator.transaction.state import (
    Transaction,
    TransactionOutcome,
    TransactionState,
    reply,
)
from klamm.coordinator.transaction.states import IDLE, PREPARED, State
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.types import TopicPartition

_ONGOING: Final = State.ONGOING  # an enum's member is looked up slowly


def add_partitions(state: TransactionState, request: AddPartitions, context: Context) -> TransactionOutcome:
    """Add, or verify; the first partition begins the transaction."""
    transaction = state.transactions.get(request.transactional_id)
    if transaction is None:
        return reply(context, all_refused(request, ErrorCode.invalid_producer_id_mapping))
    if request.is_verify_only:
        return reply(context, _verified(transaction.stored, request), transaction)
    error_code = _refusal(state, transaction, request)
    if error_code is not NO_ERROR:
        return reply(context, all_refused(request, error_code), transaction)
    stored = transaction.stored
    response = all_refused(request, NO_ERROR)
    partitions = request.partitions
    if stored.state is _ONGOING and partitions <= stored.partitions:
        if request.is_answered_early:
            return Outcome(((context.token, response),), 0)
        return reply(context, response, transaction)
    started_timestamp_ms = context.timestamp_ms
    if stored.state not in IDLE:
        partitions |= stored.partitions
        started_timestamp_ms = stored.started_timestamp_ms
    added = stored.moved(
        _ONGOING,
        context.timestamp_ms,
        partitions=partitions,
        started_timestamp_ms=started_timestamp_ms,
        client_version=request.client_version,
    )
    # By position: replies, seen_offset, renewed, notes, timers, then, records.
    outcome: TransactionOutcome = Outcome((), None, None, (), (), (), (added,))
    answered(outcome, stored.transactional_id, request, context, response)
    # A broker that puts its appends after the record of the addition.
    outcome.are_replies_early = request.is_answered_early
    return outcome


def all_refused(request: AddPartitions, error_code: ErrorCode) -> PartitionErrors:
    """The same error code for every partition."""
    return PartitionErrors(dict.fromkeys(request.partitions, error_code))


def _refusal(state: TransactionState, transaction: Transaction, request: AddPartitions) -> ErrorCode:
    stored = transaction.stored
    # Pending comes first: a client that has its next producer id already is not to be fenced for it.
    if stored.state in PREPARED or stored.transactional_id in state.parked:
        return ErrorCode.concurrent_transactions
    if request.client_version >= EPOCH_BUMP_VERSION and state.version() == 0:
        return ErrorCode.unsupported_version
    if stored.is_kept and (request.producer_id, request.producer_epoch) == client_identity(stored):
        return ErrorCode.invalid_txn_state  # it may only end the transaction that it was given
    if request.producer_id != stored.producer_id:
        return ErrorCode.invalid_producer_id_mapping
    if request.producer_epoch != stored.producer_epoch or stored.is_kept:
        return ErrorCode.producer_fenced
    return NO_ERROR


def verifies(
    stored: TransactionStored, producer_id: int, producer_epoch: int, partitions: Iterable[TopicPartition]
) -> bool:
    """Whether all of them are part of a producer's ongoing transaction."""
    return (
        stored.state is _ONGOING
        and producer_id == stored.producer_id
        and producer_epoch == stored.producer_epoch
        and not stored.is_kept
        and stored.partitions.issuperset(partitions)
    )


def _verified(stored: TransactionStored, request: AddPartitions) -> PartitionErrors:
    if request.producer_id != stored.producer_id:
        return all_refused(request, ErrorCode.invalid_producer_id_mapping)
    if request.producer_epoch != stored.producer_epoch or stored.is_kept:
        return all_refused(request, ErrorCode.producer_fenced)
    if stored.state in PREPARED:
        return all_refused(request, ErrorCode.concurrent_transactions)
    known = stored.partitions
    return PartitionErrors(
        {
            partition: NO_ERROR if partition in known else ErrorCode.transaction_abortable
            for partition in request.partitions
        }
    )
