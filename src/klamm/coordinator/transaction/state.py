"""The transactional ids of one shard: their logged state and their transient state.

`replay` alone changes the first, `apply` the second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, assert_never

from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.coordinator.runtime.timers import Timer
from klamm.coordinator.transaction.config import TransactionConfig
from klamm.coordinator.transaction.remembered import (
    EPOCH_BUMP_VERSION,
    NO_EPOCH,
    TransactionForgotten,
    TransactionRecord,
    TransactionStored,
)
from klamm.coordinator.transaction.signals import IdExpiryDue, TimeoutsDue
from klamm.coordinator.transaction.states import PREPARED, State
from klamm.protocol.types import TopicPartition


class Client(NamedTuple):
    """The client of a request."""

    client_id: str
    client_host: str


class Parked(NamedTuple):
    """A request or signal that waits for a new producer id."""

    request: object
    token: object
    client: Client


class HeldEnd(NamedTuple):
    """The response to an EndTxn, which is sent when the transaction is complete."""

    token: object
    response: object
    timer: Timer


@dataclass(slots=True)
class Transaction:
    """One transactional id."""

    stored: TransactionStored
    stored_until: int  # the offset after its record
    last_epoch: int = NO_EPOCH  # the epoch before the last bump, if that client may repeat it
    owner: Client | None = None  # the client that has the current identity; unknown after a restart
    missing: set[TopicPartition] | None = None  # partitions without a marker, while it is prepared


@dataclass(slots=True)
class TransactionState:
    """All transactional ids of one shard."""

    config: TransactionConfig = field(default_factory=TransactionConfig)
    version: Callable[[], int] = lambda: EPOCH_BUMP_VERSION  # the finalized level of `transaction.version`
    transactions: dict[str, Transaction] = field(default_factory=dict)
    ongoing: dict[str, None] = field(default_factory=dict)  # ids with an open transaction
    parked: dict[str, Parked] = field(default_factory=dict)
    held_ends: dict[str, HeldEnd] = field(default_factory=dict)
    timeout_timer: Timer = field(default_factory=lambda: Timer(TimeoutsDue()))
    expiry_timer: Timer = field(default_factory=lambda: Timer(IdExpiryDue()))
    expiry_queue: tuple[str, ...] = ()  # ids that the current expiry pass has not visited

    def remembered(self) -> dict[str, TransactionStored]:
        """The logged state of every id, to compare two states."""
        return {name: transaction.stored for name, transaction in self.transactions.items()}


# --- records -----------------------------------------------------------------------------------------


def replay_all(state: TransactionState, records: Sequence[TransactionRecord], offset: int) -> int:
    """Apply the records of one batch, the first of which is at this offset; the offset after the last."""
    for record in records:
        replay(state, record, offset)
        offset += 1
    return offset


def replay(state: TransactionState, record: TransactionRecord, offset: int) -> None:
    """Apply one record at this offset. Nothing else changes what the log remembers."""
    match record:
        case TransactionStored():
            transactional_id = record.transactional_id
            transaction = state.transactions.get(transactional_id)
            if transaction is None:
                transaction = state.transactions[transactional_id] = Transaction(record, offset + 1)
            else:
                transaction.stored = record
                transaction.stored_until = offset + 1
            transaction.missing = set(record.partitions) if record.state in PREPARED else None
            if record.state is State.ONGOING:
                state.ongoing[transactional_id] = None
            else:
                state.ongoing.pop(transactional_id, None)
        case TransactionForgotten():
            state.transactions.pop(record.transactional_id, None)
            state.ongoing.pop(record.transactional_id, None)
        case _:
            assert_never(record)


# --- notes -------------------------------------------------------------------------------------------


class IdentityGiven(NamedTuple):
    """A client was given the current identity, and its former epoch if it had one."""

    transactional_id: str
    last_epoch: int
    owner: Client


class EpochBumped(NamedTuple):
    """The epoch rose without InitProducerId; the client had this one before."""

    transactional_id: str
    last_epoch: int
    is_fence: bool  # no client has the new one


class MarkersNoted(NamedTuple):
    """Partitions that need no marker any more."""

    transactional_id: str
    partitions: frozenset[TopicPartition]


class RequestParked(NamedTuple):
    """A request waits for a new producer id."""

    transactional_id: str
    parked: Parked


class RequestUnparked(NamedTuple):
    """It waits no more."""

    transactional_id: str


class EndHeld(NamedTuple):
    """A client waits for the end of its transaction."""

    transactional_id: str
    held: HeldEnd


class EndReleased(NamedTuple):
    """It is answered."""

    transactional_id: str


class IdExpiryQueued(NamedTuple):
    """What the current expiry pass has not visited."""

    queue: tuple[str, ...]


Note: TypeAlias = (
    IdentityGiven
    | EpochBumped
    | MarkersNoted
    | RequestParked
    | RequestUnparked
    | EndHeld
    | EndReleased
    | IdExpiryQueued
)
TransactionOutcome: TypeAlias = Outcome[TransactionRecord, Note]


def apply(state: TransactionState, note: Note) -> None:
    """Apply one note. Nothing else changes transient state."""
    match note:  # what every transaction has comes first
        case EpochBumped():
            transaction = state.transactions[note.transactional_id]
            transaction.last_epoch = note.last_epoch
            if note.is_fence:
                transaction.owner = None
        case EndHeld():
            state.held_ends[note.transactional_id] = note.held
        case EndReleased():
            state.held_ends.pop(note.transactional_id, None)
        case IdentityGiven():
            transaction = state.transactions[note.transactional_id]
            transaction.last_epoch = note.last_epoch
            transaction.owner = note.owner
        case MarkersNoted():
            missing = state.transactions[note.transactional_id].missing
            if missing is not None:
                missing -= note.partitions
        case RequestParked():
            state.parked[note.transactional_id] = note.parked
        case RequestUnparked():
            state.parked.pop(note.transactional_id, None)
        case IdExpiryQueued():
            state.expiry_queue = note.queue
        case _:
            assert_never(note)


# --- outcomes ----------------------------------------------------------------------------------------


def reply(context: Context, response: object, seen: Transaction | None = None) -> TransactionOutcome:
    """Only a response; it waits until the record of its id is durable."""
    return Outcome(
        replies=((context.token, response),), seen_offset=None if seen is None else seen.stored_until
    )
