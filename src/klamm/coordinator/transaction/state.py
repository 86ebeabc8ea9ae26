"""The transactional ids of one shard: their logged state and their transient state.

`replay` alone changes the first, `apply` the second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias, assert_never

from klamm.coordinator.runtime.fields import Fields
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

_ONGOING: Final = State.ONGOING  # an enum's member is looked up slowly


def _current_version() -> int:
    return EPOCH_BUMP_VERSION


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


class Transaction(Fields):
    """One transactional id."""

    __slots__ = ("last_epoch", "missing", "owner", "stored", "stored_until")

    def __init__(self, stored: TransactionStored, stored_until: int) -> None:
        self.stored = stored
        self.stored_until = stored_until  # the offset after its record
        self.last_epoch = NO_EPOCH  # the epoch before the last bump, if that client may repeat it
        self.owner: Client | None = None  # the client that has the current identity; unknown after a restart
        self.missing: set[TopicPartition] | None = None  # partitions without a marker, while it is prepared


class TransactionState(Fields):
    """All transactional ids of one shard."""

    __slots__ = (
        "config", "expiry_queue", "expiry_timer", "held_ends", "ongoing", "parked", "timeout_timer",
        "transactions", "version",
    )  # fmt: skip

    def __init__(
        self,
        config: TransactionConfig | None = None,
        version: Callable[[], int] = _current_version,  # the finalized level of `transaction.version`
    ) -> None:
        self.config = TransactionConfig() if config is None else config
        self.version = version
        self.transactions: dict[str, Transaction] = {}
        self.ongoing: dict[str, None] = {}  # ids with an open transaction
        self.parked: dict[str, Parked] = {}
        self.held_ends: dict[str, HeldEnd] = {}
        self.timeout_timer = Timer(TimeoutsDue())
        self.expiry_timer = Timer(IdExpiryDue())
        self.expiry_queue: tuple[str, ...] = ()  # ids that the current expiry pass has not visited

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
    if isinstance(record, TransactionStored):
        transactional_id, record_state, partitions = record.transactional_id, record.state, record.partitions
        transaction = state.transactions.get(transactional_id)
        if transaction is None:
            transaction = state.transactions[transactional_id] = Transaction(record, offset + 1)
        else:
            transaction.stored = record
            transaction.stored_until = offset + 1
        transaction.missing = set(partitions) if record_state in PREPARED else None
        if record_state is _ONGOING:
            state.ongoing[transactional_id] = None
        else:
            state.ongoing.pop(transactional_id, None)
    elif isinstance(record, TransactionForgotten):
        state.transactions.pop(record.transactional_id, None)
        state.ongoing.pop(record.transactional_id, None)
    else:
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
TransactionOutcome: TypeAlias = Outcome


def apply(state: TransactionState, note: Note) -> None:
    """Apply one note. Nothing else changes transient state."""
    # What every transaction has comes first.
    if isinstance(note, EpochBumped):
        transaction = state.transactions[note.transactional_id]
        transaction.last_epoch = note.last_epoch
        if note.is_fence:
            transaction.owner = None
    elif isinstance(note, EndHeld):
        state.held_ends[note.transactional_id] = note.held
    elif isinstance(note, EndReleased):
        state.held_ends.pop(note.transactional_id, None)
    elif isinstance(note, IdentityGiven):
        transaction = state.transactions[note.transactional_id]
        transaction.last_epoch = note.last_epoch
        transaction.owner = note.owner
    elif isinstance(note, MarkersNoted):
        transaction = state.transactions[note.transactional_id]
        if transaction.missing is not None:
            transaction.missing -= note.partitions
    elif isinstance(note, RequestParked):
        state.parked[note.transactional_id] = note.parked
    elif isinstance(note, RequestUnparked):
        state.parked.pop(note.transactional_id, None)
    elif isinstance(note, IdExpiryQueued):
        state.expiry_queue = note.queue
    else:
        assert_never(note)


# --- outcomes ----------------------------------------------------------------------------------------


def reply(context: Context, response: object, seen: Transaction | None = None) -> TransactionOutcome:
    """Only a response; it waits until the record of its id is durable."""
    return Outcome(((context.token, response),), None if seen is None else seen.stored_until)
