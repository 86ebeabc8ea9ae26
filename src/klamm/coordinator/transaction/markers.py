"""Markers: what becomes of those that were ordered, and the end of a prepared transaction.

Kafka's rule for each result: success and partitions that can hold no marker are done; what may succeed at
another leader or a moment later is sent again, with back-off; an epoch that is too old means that another
coordinator has taken over, and this one stops.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.coordinator.runtime.timers import Timer
from klamm.coordinator.transaction.actions import WriteMarkers
from klamm.coordinator.transaction.ending import complete
from klamm.coordinator.transaction.events import TransactionEventCause, TransactionStuck
from klamm.coordinator.transaction.signals import (
    CompletionRefused,
    EndComplete,
    MarkersDue,
    MarkersWritten,
    Prepared,
)
from klamm.coordinator.transaction.state import (
    Client,
    EndReleased,
    MarkersNoted,
    Transaction,
    TransactionOutcome,
    TransactionState,
)
from klamm.coordinator.transaction.states import PREPARED, State
from klamm.protocol.errors import ErrorCode

_PREPARE_COMMIT: Final = State.PREPARE_COMMIT  # an enum's member is looked up slowly
FIRST_BACKOFF_MS: Final = 20
MAX_BACKOFF_MS: Final = 1_000

DONE: Final = frozenset(
    {ErrorCode.none, ErrorCode.unsupported_for_message_format, ErrorCode.unsupported_version}
)
RETRIED: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.request_timed_out,
        ErrorCode.kafka_storage_error,
        ErrorCode.network_exception,
        ErrorCode.leader_not_available,
    }
)


def prepared(state: TransactionState, signal: Prepared, context: Context) -> TransactionOutcome:
    """Order all markers of a prepared transaction. They may share the flush of its record."""
    transaction = state.transactions.get(signal.transactional_id)
    if transaction is None or transaction.stored.state not in PREPARED:
        return Outcome()
    outcome: TransactionOutcome = Outcome((), transaction.stored_until)
    outcome.actions = (markers_of(transaction),)
    outcome.are_actions_early = True
    return outcome


def markers_of(transaction: Transaction) -> WriteMarkers:
    stored = transaction.stored
    return WriteMarkers(
        stored.transactional_id,
        stored.producer_id,
        stored.producer_epoch,
        stored.state is _PREPARE_COMMIT,
        stored.partitions,
        stored.client_version,
        transaction.stored_until,
    )


def markers_written(state: TransactionState, signal: MarkersWritten, context: Context) -> TransactionOutcome:
    """Note what is done, send again what may succeed, complete the transaction after the last marker."""
    order = signal.order
    transaction = _ordered(state, order)
    if transaction is None:
        return Outcome()
    assert transaction.missing is not None
    done = {partition for partition, error_code in signal.results.items() if error_code in DONE}
    if transaction.missing <= done:
        # By position: replies, seen_offset, renewed, notes, timers, then, records.
        completed: TransactionOutcome = Outcome(
            (), None, None, (), (), (), (complete(transaction.stored, context.timestamp_ms),)
        )
        completed.is_awaited = False  # see `end_complete`
        completed.if_refused = partial(CompletionRefused, signal)
        held = state.held_ends.get(order.transactional_id)
        if held is not None:
            completed.notes = (EndReleased(order.transactional_id),)
            completed.timers = ((held.timer, None),)
            completed.then = (EndComplete(held.token, held.response, order.prepared_until),)
        return completed
    outcome: TransactionOutcome = Outcome()
    if done:
        outcome.notes = (MarkersNoted(order.transactional_id, frozenset(done)),)
    retried = {partition for partition, error_code in signal.results.items() if error_code in RETRIED}
    if retried:
        again = order._replace(partitions=frozenset(retried), attempt=order.attempt + 1)
        outcome.timers = ((Timer(MarkersDue(again)), context.now_ms + backoff_ms(order.attempt)),)
    refused = signal.results.keys() - done - retried
    if refused:
        outcome.events = (_stuck(transaction, signal, context),)
    return outcome


def end_complete(state: TransactionState, signal: EndComplete, context: Context) -> TransactionOutcome:
    """Answer the client: the decision and its markers are durable.

    The record of the completion need not be. If it is lost, the markers are written again; and nothing of
    the next transaction can be durable without it, for it comes first in the log.
    """
    return Outcome(((signal.token, signal.response),), signal.prepared_until)


def markers_due(state: TransactionState, signal: MarkersDue, context: Context) -> TransactionOutcome:
    """Send again what is still missing."""
    transaction = _ordered(state, signal.order)
    if transaction is None or transaction.missing is None:
        return Outcome()
    missing = signal.order.partitions & transaction.missing
    if not missing:
        return Outcome()
    return Outcome(actions=(signal.order._replace(partitions=missing),), seen_offset=transaction.stored_until)


def completion_refused(
    state: TransactionState, signal: CompletionRefused, context: Context
) -> TransactionOutcome:
    """The markers are in place: only the record is written again."""
    order = signal.written.order
    again = signal.written._replace(order=order._replace(attempt=order.attempt + 1))
    return Outcome(timers=((Timer(again), context.now_ms + backoff_ms(order.attempt)),))


def backoff_ms(attempt: int) -> int:
    """How long to wait after this attempt."""
    return min(FIRST_BACKOFF_MS << min(attempt, 10), MAX_BACKOFF_MS)


def _ordered(state: TransactionState, order: WriteMarkers) -> Transaction | None:
    """The transaction that an order is for, if it still is prepared: its results may come late, or twice."""
    transaction = state.transactions.get(order.transactional_id)
    if transaction is None or transaction.stored.state not in PREPARED:
        return None
    return transaction if transaction.stored_until == order.prepared_until else None


def _stuck(transaction: Transaction, signal: MarkersWritten, context: Context) -> TransactionStuck:
    stored, owner = transaction.stored, transaction.owner or Client("", "")
    refused = {
        partition: error_code
        for partition, error_code in signal.results.items()
        if error_code not in DONE and error_code not in RETRIED
    }
    return TransactionStuck(
        transactional_id=stored.transactional_id,
        timestamp_ms=context.timestamp_ms,
        cause=TransactionEventCause.MARKER_REFUSED,
        producer_id=stored.producer_id,
        producer_epoch=stored.producer_epoch,
        client_id=owner.client_id,
        client_host=owner.client_host,
        is_commit=signal.order.is_commit,
        error=next(iter(refused.values())).name.upper(),
        partitions=frozenset(refused),
    )
