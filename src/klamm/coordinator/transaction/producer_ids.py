"""A new producer id is there: the request that waited for it is decided again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.coordinator.transaction.end_txn import end_txn
from klamm.coordinator.transaction.init_producer_id import init_producer_id
from klamm.coordinator.transaction.refusals import error_response
from klamm.coordinator.transaction.signals import AppendRefused, ProducerIdAllocated, TimedOut
from klamm.coordinator.transaction.state import (
    Note,
    RequestUnparked,
    TransactionOutcome,
    TransactionState,
)
from klamm.coordinator.transaction.timeouts import abort_timed_out
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.end_txn import EndTxnRequest
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest

# Any: each takes the type under which it is listed.
_DECISIONS: Final[
    Mapping[type, Callable[[TransactionState, Any, Context, int | None], TransactionOutcome]]
] = {
    InitProducerIdRequest: init_producer_id,
    EndTxnRequest: end_txn,
    TimedOut: abort_timed_out,
}

# What a log's error means to a client of the coordinator. Others are passed on as they are.
_APPEND_ERRORS: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
}


def producer_id_allocated(
    state: TransactionState, signal: ProducerIdAllocated, context: Context
) -> TransactionOutcome:
    """Decide what waited. An id that turns out not to be needed is lost; gaps are harmless."""
    parked = state.parked.get(signal.transactional_id)
    if parked is None:
        return Outcome()
    unparked = RequestUnparked(signal.transactional_id)
    if signal.error_code is not NO_ERROR:
        outcome: TransactionOutcome = Outcome(notes=(unparked,))
        if parked.token is not None:
            outcome.replies = ((parked.token, error_response(parked.request, signal.error_code)),)
        return outcome
    asked = Context(
        now_ms=context.now_ms,
        timestamp_ms=context.timestamp_ms,
        client_id=parked.client.client_id,
        client_host=parked.client.client_host,
        token=parked.token,
    )
    outcome = _DECISIONS[type(parked.request)](state, parked.request, asked, signal.producer_id)
    outcome.notes = (unparked, *outcome.notes)
    return outcome


def append_refused(state: TransactionState, signal: AppendRefused, context: Context) -> TransactionOutcome:
    """Nothing has changed; the client gets the error."""
    notes: tuple[Note, ...] = ()
    if signal.transactional_id in state.parked:
        notes = (RequestUnparked(signal.transactional_id),)
    if signal.token is None:
        return Outcome(notes=notes)
    error_code = _APPEND_ERRORS.get(signal.error_code, signal.error_code)
    return Outcome(notes=notes, replies=((signal.token, error_response(signal.request, error_code)),))
