"""The states of a transactional producer, and which call is legal in which."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from klamm.errors import IllegalStateError


class ProducerPhase(Enum):
    """The state of a transactional producer. The value completes "the producer ...", for messages."""

    UNINITIALIZED = "has not called init_transactions()"
    INITIALIZING = "is initializing"
    READY = "has no transaction"
    IN_TRANSACTION = "is in a transaction"
    PREPARED = "has a prepared transaction"
    COMMITTING = "is committing"
    ABORTING = "is aborting"
    HANDED_OVER = "has handed its transaction over"
    ABORTABLE_ERROR = "must abort its transaction"
    FATAL_ERROR = "has failed"


S: Final = ProducerPhase

# From each state to those that may follow. FATAL_ERROR may follow any and is never left.
FOLLOWING: Final[Mapping[ProducerPhase, frozenset[ProducerPhase]]] = {
    S.UNINITIALIZED: frozenset({S.INITIALIZING, S.IN_TRANSACTION}),
    S.INITIALIZING: frozenset({S.READY, S.PREPARED, S.UNINITIALIZED}),
    S.READY: frozenset({S.IN_TRANSACTION}),
    S.IN_TRANSACTION: frozenset({S.PREPARED, S.COMMITTING, S.ABORTING, S.HANDED_OVER, S.ABORTABLE_ERROR}),
    S.PREPARED: frozenset({S.COMMITTING, S.ABORTING, S.ABORTABLE_ERROR}),
    S.COMMITTING: frozenset({S.READY, S.ABORTABLE_ERROR}),
    S.ABORTING: frozenset({S.READY, S.ABORTABLE_ERROR}),
    S.HANDED_OVER: frozenset({S.INITIALIZING, S.IN_TRANSACTION}),
    S.ABORTABLE_ERROR: frozenset({S.ABORTING}),
    S.FATAL_ERROR: frozenset(),
}

# Each call and the states in which it may be made.
LEGAL: Final[Mapping[str, frozenset[ProducerPhase]]] = {
    "init_transactions": frozenset({S.UNINITIALIZED, S.HANDED_OVER}),
    "begin_transaction": frozenset({S.READY}),
    "send": frozenset({S.IN_TRANSACTION}),
    "send_offsets_to_transaction": frozenset({S.IN_TRANSACTION}),
    "prepare_transaction": frozenset({S.IN_TRANSACTION}),
    "commit_transaction": frozenset({S.IN_TRANSACTION, S.PREPARED}),
    "abort_transaction": frozenset({S.IN_TRANSACTION, S.PREPARED, S.ABORTABLE_ERROR}),
    "complete_transaction": frozenset({S.PREPARED}),
    "hand_over_transaction": frozenset({S.IN_TRANSACTION}),
    "resume_transaction": frozenset({S.UNINITIALIZED, S.READY, S.HANDED_OVER}),
}

_NEXT_STEP: Final[Mapping[ProducerPhase, str]] = {
    S.UNINITIALIZED: "call init_transactions() first",
    S.INITIALIZING: "call init_transactions() again and wait for it",
    S.READY: "call begin_transaction() first",
    S.IN_TRANSACTION: "commit_transaction() or abort_transaction() ends it",
    S.PREPARED: "end it with commit_transaction(), abort_transaction() or complete_transaction()",
    S.COMMITTING: "call commit_transaction() again and wait for it",
    S.ABORTING: "call abort_transaction() again and wait for it",
    S.HANDED_OVER: "only resume_transaction(), init_transactions() and close() are possible",
    S.ABORTABLE_ERROR: "call abort_transaction()",
    S.FATAL_ERROR: "close this producer and make a new one",
}


def may_follow(state: ProducerPhase, following: ProducerPhase) -> bool:
    """Whether the table allows this step."""
    return following is S.FATAL_ERROR or following in FOLLOWING[state]


def illegal(call: str, state: ProducerPhase) -> IllegalStateError:
    """The error for a call that is not legal now; it names the next step."""
    return IllegalStateError(f"{call}(): the producer {state.value}; {_NEXT_STEP[state]}")
