"""Transactional ids that nothing has used for a long time: tombstones are written and the ids removed."""

from __future__ import annotations

from typing import Final

from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.coordinator.transaction.events import TransactionalIdExpired, TransactionEventCause
from klamm.coordinator.transaction.remembered import TransactionForgotten
from klamm.coordinator.transaction.signals import IdExpiryDue, IdExpiryRefused
from klamm.coordinator.transaction.state import IdExpiryQueued, TransactionOutcome, TransactionState
from klamm.coordinator.transaction.states import IDLE

IDS_AT_A_TIME: Final = 10_000  # visited before others get their turn; some milliseconds


def expire(state: TransactionState, signal: IdExpiryDue, context: Context) -> TransactionOutcome:
    """Visit the next ids and remove those that are idle for the expiration time."""
    queue = state.expiry_queue or tuple(state.transactions)
    before_ms = context.timestamp_ms - state.config.transactional_id_expiration_ms
    records: list[TransactionForgotten] = []
    events: list[TransactionalIdExpired] = []
    for transactional_id in queue[:IDS_AT_A_TIME]:
        transaction = state.transactions.get(transactional_id)
        if transaction is None or transactional_id in state.parked:
            continue
        stored = transaction.stored
        if stored.state not in IDLE or stored.updated_timestamp_ms > before_ms:
            continue
        records.append(TransactionForgotten(transactional_id))
        events.append(
            TransactionalIdExpired(
                transactional_id=transactional_id,
                timestamp_ms=context.timestamp_ms,
                cause=TransactionEventCause.EXPIRED,
                producer_id=stored.producer_id,
                producer_epoch=stored.producer_epoch,
                unused_ms=context.timestamp_ms - stored.updated_timestamp_ms,
            )
        )
    rest = queue[IDS_AT_A_TIME:]
    interval_ms = state.config.transaction_remove_expired_transaction_cleanup_interval_ms
    return Outcome(
        records=records,
        notes=(IdExpiryQueued(rest),),
        timers=((state.expiry_timer, context.now_ms + (0 if rest else interval_ms)),),
        events=events,
        if_refused=IdExpiryRefused,
        is_divisible=True,
    )


def expiry_refused(state: TransactionState, signal: IdExpiryRefused, context: Context) -> TransactionOutcome:
    """The next pass finds what this one could not write."""
    interval_ms = state.config.transaction_remove_expired_transaction_cleanup_interval_ms
    return Outcome(notes=(IdExpiryQueued(()),), timers=((state.expiry_timer, context.now_ms + interval_ms),))
