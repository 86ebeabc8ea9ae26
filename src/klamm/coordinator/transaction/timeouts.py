"""Transactions that are open for too long: found from time to time, fenced and aborted.

What counts is the time since the first partition, not the time since the last request.
"""

from __future__ import annotations

from typing import Final

from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.coordinator.transaction.ending import answered, end, park
from klamm.coordinator.transaction.events import TransactionEventCause
from klamm.coordinator.transaction.init_producer_id import aborted, epoch_after_fence, fence_ending
from klamm.coordinator.transaction.remembered import NO_TIMEOUT_MS, TransactionStored
from klamm.coordinator.transaction.signals import TimedOut, TimeoutsDue
from klamm.coordinator.transaction.state import TransactionOutcome, TransactionState

ABORTS_AT_A_TIME: Final = 200  # others get their turn in between


def find_timed_out(state: TransactionState, signal: TimeoutsDue, context: Context) -> TransactionOutcome:
    """Abort what is over its time, some in each turn."""
    found: list[TimedOut] = []
    for transactional_id in state.ongoing:
        stored = state.transactions[transactional_id].stored
        if transactional_id not in state.parked and _is_over(stored, context.timestamp_ms):
            found.append(TimedOut(transactional_id))
            if len(found) == ABORTS_AT_A_TIME:
                break
    is_more = len(found) == ABORTS_AT_A_TIME
    interval_ms = state.config.transaction_abort_timed_out_transaction_cleanup_interval_ms
    next_ms = context.now_ms + (min(interval_ms, 10) if is_more else interval_ms)
    return Outcome(then=found, timers=((state.timeout_timer, next_ms),))


def abort_timed_out(
    state: TransactionState, signal: TimedOut, context: Context, fresh_producer_id: int | None = None
) -> TransactionOutcome:
    """Fence the producer and abort. If the log rejects it, the next look finds it again."""
    transaction = state.transactions.get(signal.transactional_id)
    if transaction is None or signal.transactional_id not in state.ongoing:
        return Outcome()
    stored = transaction.stored
    if not _is_over(stored, context.timestamp_ms):
        return Outcome()
    ending = fence_ending(state)
    if ending.needs_producer_id(stored, stored.is_kept) and fresh_producer_id is None:
        return park(signal.transactional_id, signal, context)
    outcome = end(stored, ending, context, fresh_producer_id, last_epoch=epoch_after_fence(stored, ending))
    outcome.events = (aborted(transaction, TransactionEventCause.TIMED_OUT, context),)
    outcome = answered(outcome, signal.transactional_id, signal, context, None)
    outcome.replies = ()
    return outcome


def _is_over(stored: TransactionStored, timestamp_ms: int) -> bool:
    if stored.timeout_ms == NO_TIMEOUT_MS:  # in two phases: it is its client's to end
        return False
    return stored.started_timestamp_ms + stored.timeout_ms < timestamp_ms
