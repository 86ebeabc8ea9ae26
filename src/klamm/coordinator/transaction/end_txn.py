"""EndTxn: commit or abort.

What a request means depends on the state and, from `transaction.version` 2 on, on whether it carries the
current epoch or the one before: the latter repeats a request whose response, the next epoch, got lost. The
tables have all cases. A prepared transaction is in none of them: it answers CONCURRENT_TRANSACTIONS until it
is complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.coordinator.runtime.timers import Timer
from klamm.coordinator.transaction.ending import (
    Ending,
    Identity,
    answered,
    client_identity,
    end,
    park,
)
from klamm.coordinator.transaction.remembered import (
    EPOCH_BUMP_VERSION,
    LAST_CLIENT_EPOCH,
    MAX_EPOCH,
    NO_PRODUCER_ID,
    TransactionStored,
)
from klamm.coordinator.transaction.signals import EndHeldTooLong
from klamm.coordinator.transaction.state import (
    EndHeld,
    EndReleased,
    HeldEnd,
    TransactionOutcome,
    TransactionState,
    reply,
)
from klamm.coordinator.transaction.states import PREPARED, State
from klamm.protocol.errors import NO_ERROR, ErrorCode
from klamm.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

MAX_HELD_MS: Final = 100  # how long the response waits for the markers

_DONE: Final = NO_ERROR
_WRONG: Final = ErrorCode.invalid_txn_state
_FENCED: Final = ErrorCode.producer_fenced

# For each state: the answer to a commit and to an abort. A state is the one to go to.
_Answer: TypeAlias = ErrorCode | State
_Table: TypeAlias = Mapping[State, tuple[_Answer, _Answer]]

VERSION_1: Final[_Table] = {
    State.EMPTY: (_WRONG, _WRONG),
    State.ONGOING: (State.PREPARE_COMMIT, State.PREPARE_ABORT),
    State.COMPLETE_COMMIT: (_DONE, _WRONG),
    State.COMPLETE_ABORT: (_WRONG, _DONE),
}
# A client cannot know whether the partitions that its Produce requests add have reached the coordinator: it
# may abort what did not begin.
VERSION_2: Final[_Table] = {
    State.EMPTY: (_WRONG, State.PREPARE_ABORT),
    State.ONGOING: (State.PREPARE_COMMIT, State.PREPARE_ABORT),
    State.COMPLETE_COMMIT: (_WRONG, State.PREPARE_ABORT),
    State.COMPLETE_ABORT: (_WRONG, State.PREPARE_ABORT),
}
VERSION_2_REPEATED: Final[_Table] = {
    State.EMPTY: (_FENCED, _FENCED),
    State.ONGOING: (_FENCED, _FENCED),
    State.COMPLETE_COMMIT: (_DONE, _WRONG),
    State.COMPLETE_ABORT: (_WRONG, _DONE),
}


def end_txn(
    state: TransactionState, request: EndTxnRequest, context: Context, fresh_producer_id: int | None = None
) -> TransactionOutcome:
    """Decide; the response leaves when the transaction is complete, or when its markers take long."""
    if request.bumps_epoch and state.version() == 0:
        return reply(context, EndTxnResponse(error_code=ErrorCode.unsupported_version))
    transaction = state.transactions.get(request.transactional_id)
    if transaction is None:
        return reply(context, EndTxnResponse(error_code=ErrorCode.invalid_producer_id_mapping))
    stored = transaction.stored
    table = _table_for(stored, request)
    if isinstance(table, ErrorCode):
        return reply(context, EndTxnResponse(error_code=table), transaction)
    transactional_id, stored_state = request.transactional_id, stored.state
    is_parked = transactional_id in state.parked and fresh_producer_id is None
    if stored_state in PREPARED or is_parked:
        return reply(context, EndTxnResponse(error_code=ErrorCode.concurrent_transactions), transaction)
    target = table[stored_state][0 if request.committed else 1]
    if isinstance(target, ErrorCode):
        identity = Identity(stored.producer_id, stored.producer_epoch)
        return reply(context, _response(target, identity), transaction)
    ending = Ending(target, EPOCH_BUMP_VERSION if request.bumps_epoch else 0)
    if ending.needs_producer_id(stored, stored.is_kept) and fresh_producer_id is None:
        return park(transactional_id, request, context)
    # The identity that was asked for is the one that the client has: else no table would apply.
    last_epoch = request.producer_epoch if ending.raises_epoch else None
    outcome = end(stored, ending, context, fresh_producer_id, last_epoch)
    prepared = outcome.records[0]
    assert isinstance(prepared, TransactionStored)
    identity = client_identity(prepared)
    outcome = answered(outcome, transactional_id, request, context, _response(NO_ERROR, identity))
    return _held(outcome, transactional_id, context) if outcome.then else outcome


def _held(outcome: TransactionOutcome, transactional_id: str, context: Context) -> TransactionOutcome:
    """Delay the response until the markers are written, a millisecond or two.

    A client that gets a response after Prepare begins its next transaction too early: it is rejected with
    CONCURRENT_TRANSACTIONS and waits for 20 ms, each time.
    """
    ((token, response),) = outcome.replies
    held = HeldEnd(token, response, Timer(EndHeldTooLong(transactional_id)))
    outcome.notes = (*outcome.notes, EndHeld(transactional_id, held))
    outcome.timers = ((held.timer, context.now_ms + MAX_HELD_MS),)
    outcome.replies = ()
    return outcome


def end_held_too_long(
    state: TransactionState, signal: EndHeldTooLong, context: Context
) -> TransactionOutcome:
    """The decision is logged; only its markers are late."""
    held = state.held_ends.get(signal.transactional_id)
    transaction = state.transactions.get(signal.transactional_id)
    if held is None or transaction is None:
        return Outcome()
    return Outcome(
        notes=(EndReleased(signal.transactional_id),),
        replies=((held.token, held.response),),
        seen_offset=transaction.stored_until,
    )


def _response(error_code: ErrorCode, identity: Identity) -> EndTxnResponse:
    if error_code is not NO_ERROR:
        return EndTxnResponse(error_code=error_code)
    return EndTxnResponse(0, NO_ERROR, identity.producer_id, identity.producer_epoch)


def _table_for(stored: TransactionStored, request: EndTxnRequest) -> _Table | ErrorCode:
    """Which table applies to the identity of the request, or why none does."""
    producer_id, producer_epoch = request.producer_id, request.producer_epoch
    if (
        request.bumps_epoch
        and producer_id == stored.producer_id
        and producer_epoch == stored.producer_epoch
        and stored.next_producer_id == NO_PRODUCER_ID
        and stored.state not in PREPARED
    ):
        return VERSION_2  # as nearly always: the rest without making an identity
    asked = Identity(producer_id, producer_epoch)
    if not request.bumps_epoch:
        current = client_identity(stored) if stored.is_kept else Identity(*stored[1:3])
        if asked == current:
            return VERSION_1
        return _mismatch(stored, asked)
    if stored.state in PREPARED:
        return _table_while_prepared(stored, asked)
    current = client_identity(stored)
    if asked == current:
        return VERSION_2
    if stored.is_kept:
        return _mismatch(stored, asked)
    # The epoch that is reserved for fencing is not given to a client, not even when it repeats a request.
    if asked == (current.producer_id, current.producer_epoch - 1) and current.producer_epoch < MAX_EPOCH:
        return VERSION_2_REPEATED
    if asked == (stored.previous_producer_id, LAST_CLIENT_EPOCH) and current.producer_epoch == 0:
        return VERSION_2_REPEATED
    return _mismatch(stored, asked)


def _table_while_prepared(stored: TransactionStored, asked: Identity) -> _Table | ErrorCode:
    """CONCURRENT_TRANSACTIONS for any identity the client may have: of this transaction, and the next."""
    following = client_identity(stored)
    known = {
        Identity(stored.producer_id, stored.producer_epoch),
        Identity(stored.producer_id, stored.producer_epoch - 1),
        following,
    }
    if stored.next_producer_id != NO_PRODUCER_ID:
        known.add(Identity(following.producer_id, following.producer_epoch - 1))
        known.add(Identity(stored.previous_producer_id, LAST_CLIENT_EPOCH))
    return VERSION_2 if asked in known else _mismatch(stored, asked)


def _mismatch(stored: TransactionStored, asked: Identity) -> ErrorCode:
    if asked.producer_id in (stored.producer_id, client_identity(stored).producer_id):
        return _FENCED
    return ErrorCode.invalid_producer_id_mapping
