"""How a transaction ends: its Prepare record, its Complete record, and the identity that follows.

With `transaction.version` 2 the end raises the epoch, so that no record of this transaction can reach the
next. A fence raises it in every version. When the epochs of a producer id are used up, the next transaction
has a new producer id, which takes effect when this one completes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.coordinator.transaction.actions import AllocateProducerId
from klamm.coordinator.transaction.remembered import (
    EPOCH_BUMP_VERSION,
    LAST_CLIENT_EPOCH,
    MAX_EPOCH,
    NO_EPOCH,
    NO_PARTITIONS,
    NO_PRODUCER_ID,
    TransactionStored,
)
from klamm.coordinator.transaction.signals import AppendRefused, Prepared
from klamm.coordinator.transaction.state import (
    Client,
    EpochBumped,
    Note,
    Parked,
    RequestParked,
    TransactionOutcome,
)
from klamm.coordinator.transaction.states import COMPLETIONS, IDLE, State


class Identity(NamedTuple):
    """What a client signs its requests and records with."""

    producer_id: int
    producer_epoch: int


_IDENTITY: Final[Callable[[tuple[int, int]], Identity]] = partial(tuple.__new__, Identity)  # twice as fast


class Ending:
    """A decision to commit or to abort."""

    __slots__ = ("client_version", "is_fence", "raises_epoch", "target")

    def __init__(self, target: State, client_version: int, is_fence: bool = False) -> None:
        self.target = target  # PREPARE_COMMIT or PREPARE_ABORT
        self.client_version = client_version
        self.is_fence = is_fence
        self.raises_epoch = is_fence or client_version >= EPOCH_BUMP_VERSION

    def needs_producer_id(self, stored: TransactionStored, is_kept: bool) -> bool:
        """Whether the client's next identity has another producer id."""
        if is_kept:
            return self.raises_epoch and stored.next_producer_epoch >= LAST_CLIENT_EPOCH
        # A fence before version 2 leaves the rotation to the next InitProducerId.
        return self.client_version >= EPOCH_BUMP_VERSION and stored.producer_epoch >= LAST_CLIENT_EPOCH


def client_identity(stored: TransactionStored) -> Identity:
    """The identity that the client has: in a kept or ending transaction not always that of the records."""
    if stored.next_producer_id == NO_PRODUCER_ID:
        return _IDENTITY((stored.producer_id, stored.producer_epoch))
    return _IDENTITY((stored.next_producer_id, max(stored.next_producer_epoch, 0)))


def prepare(
    stored: TransactionStored, ending: Ending, timestamp_ms: int, fresh_producer_id: int | None
) -> TransactionStored:
    """The record that makes the decision durable; partitions get their markers with its epoch."""
    epoch, next_id, next_epoch = stored.producer_epoch, NO_PRODUCER_ID, NO_EPOCH
    previous_id, is_kept = stored.producer_id, stored.is_kept
    if ending.raises_epoch:
        epoch = min(epoch + 1, MAX_EPOCH)
    if is_kept:
        previous_id = stored.next_producer_id
        next_id, next_epoch = stored.next_producer_id, stored.next_producer_epoch
        if ending.raises_epoch:
            next_epoch += 1
    if ending.needs_producer_id(stored, is_kept):
        assert fresh_producer_id is not None
        next_id = fresh_producer_id
        next_epoch = 0 if is_kept else NO_EPOCH
    return stored.moved(
        ending.target,
        timestamp_ms,
        producer_epoch=epoch,
        previous_producer_id=previous_id,
        next_producer_id=next_id,
        next_producer_epoch=next_epoch,
        client_version=ending.client_version,
        # An abort without records has no start time; Kafka uses its end.
        started_timestamp_ms=timestamp_ms if stored.state in IDLE else stored.started_timestamp_ms,
    )


def complete(prepared: TransactionStored, timestamp_ms: int) -> TransactionStored:
    """The record after the last marker. The client's next identity becomes the current one."""
    producer_id, epoch = client_identity(prepared)
    is_kept = prepared.next_producer_epoch != NO_EPOCH
    return prepared.moved(
        COMPLETIONS[prepared.state],
        timestamp_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        previous_producer_id=prepared.previous_producer_id if is_kept else prepared.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_EPOCH,
        partitions=NO_PARTITIONS,
    )


def end(
    stored: TransactionStored,
    ending: Ending,
    context: Context,
    fresh_producer_id: int | None,
    last_epoch: int | None = None,
) -> TransactionOutcome:
    """Write Prepare, then the markers; without partitions there are none, and Complete follows at once."""
    prepared = prepare(stored, ending, context.timestamp_ms, fresh_producer_id)
    notes: tuple[Note, ...] = ()
    if last_epoch is not None:
        notes = (EpochBumped(stored.transactional_id, last_epoch, ending.is_fence),)
    if not prepared.partitions:
        return Outcome(records=(prepared, complete(prepared, context.timestamp_ms)), notes=notes)
    # By position: replies, seen_offset, renewed, notes, timers, then, records.
    return Outcome((), None, None, notes, (), (Prepared(stored.transactional_id),), (prepared,))


def park(transactional_id: str, request: object, context: Context) -> TransactionOutcome:
    """Let a request wait for a new producer id; nothing is decided until it is there."""
    parked = Parked(request, context.token, Client(context.client_id, context.client_host))
    return Outcome(
        notes=(RequestParked(transactional_id, parked),),
        actions=(AllocateProducerId(transactional_id),),
        seen_offset=0,  # an id may be allocated before what it is for is durable
    )


def answered(
    outcome: TransactionOutcome, transactional_id: str, request: object, context: Context, response: object
) -> TransactionOutcome:
    """Send a response when the records of an outcome are durable, or an error if the log rejects them."""
    token = context.token
    outcome.replies = ((token, response),)
    outcome.if_refused = partial(AppendRefused, transactional_id, request, token)
    return outcome
