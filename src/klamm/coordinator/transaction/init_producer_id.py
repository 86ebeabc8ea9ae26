"""InitProducerId with a transactional id: a producer gets an identity that fences all before it.

The coordinator has checked the transactional id, the timeout and the two-phase settings.
"""

from __future__ import annotations

from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.coordinator.transaction.ending import (
    Ending,
    Identity,
    answered,
    client_identity,
    end,
    park,
)
from klamm.coordinator.transaction.events import ProducerFenced, TransactionAborted, TransactionEventCause
from klamm.coordinator.transaction.remembered import (
    EPOCH_BUMP_VERSION,
    LAST_CLIENT_EPOCH,
    MAX_EPOCH,
    NO_EPOCH,
    NO_PARTITIONS,
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    TransactionStored,
)
from klamm.coordinator.transaction.state import (
    Client,
    IdentityGiven,
    Transaction,
    TransactionOutcome,
    TransactionState,
    reply,
)
from klamm.coordinator.transaction.states import PREPARED, State
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def init_producer_id(
    state: TransactionState,
    request: InitProducerIdRequest,
    context: Context,
    fresh_producer_id: int | None = None,
) -> TransactionOutcome:
    """Allocate an identity, or abort the former producer's transaction and let the client retry."""
    transactional_id = request.transactional_id
    assert transactional_id is not None
    if transactional_id in state.parked and fresh_producer_id is None:
        return reply(context, refused(ErrorCode.concurrent_transactions))
    transaction = state.transactions.get(transactional_id)
    if transaction is None:
        return _create(transactional_id, request, context, fresh_producer_id)
    stored = transaction.stored
    if stored.state in PREPARED:
        return reply(context, refused(ErrorCode.concurrent_transactions), transaction)
    if not _is_known_id(stored, request):
        return reply(context, refused(ErrorCode.producer_fenced), transaction)
    if stored.state is not State.ONGOING:
        return _bump(transaction, request, context, fresh_producer_id)
    if request.keep_prepared_txn:
        return _keep(transaction, request, context, fresh_producer_id)
    return _fence(state, transaction, request, context, fresh_producer_id)


def refused(error_code: ErrorCode) -> InitProducerIdResponse:
    """The response that has no identity."""
    return InitProducerIdResponse(error_code=error_code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH)


def _is_known_id(stored: TransactionStored, request: InitProducerIdRequest) -> bool:
    """Whether the client can have the producer id in its request."""
    if request.producer_id == NO_PRODUCER_ID or stored.producer_epoch == NO_EPOCH:
        return True
    if request.producer_id in (stored.producer_id, client_identity(stored).producer_id):
        return True
    # A repeated request whose response, the rotation to a new producer id, got lost.
    return request.producer_id == stored.previous_producer_id and request.producer_epoch >= LAST_CLIENT_EPOCH


def _timeout_ms(request: InitProducerIdRequest) -> int:
    return NO_TIMEOUT_MS if request.enable2_pc else request.transaction_timeout_ms


def _create(
    transactional_id: str, request: InitProducerIdRequest, context: Context, fresh_producer_id: int | None
) -> TransactionOutcome:
    if fresh_producer_id is None:
        return park(transactional_id, request, context)
    stored = TransactionStored(
        transactional_id,
        fresh_producer_id,
        0,
        _timeout_ms(request),
        State.EMPTY,
        NO_PARTITIONS,
        context.timestamp_ms,
        previous_producer_id=fresh_producer_id,
    )
    return _given(stored, NO_EPOCH, request, context)


def _bump(
    transaction: Transaction, request: InitProducerIdRequest, context: Context, fresh_producer_id: int | None
) -> TransactionOutcome:
    stored = transaction.stored
    expects = request.producer_id != NO_PRODUCER_ID
    is_current = stored.producer_epoch in (request.producer_epoch, NO_EPOCH)
    is_repeated = expects and not is_current and request.producer_epoch == transaction.last_epoch
    if expects and not is_current and not is_repeated:
        return reply(context, refused(ErrorCode.producer_fenced), transaction)
    producer_id, epoch = stored.producer_id, stored.producer_epoch
    last_epoch = stored.producer_epoch if expects else NO_EPOCH
    if is_repeated and epoch < MAX_EPOCH:
        last_epoch = transaction.last_epoch  # the same response for every repetition
    elif epoch >= LAST_CLIENT_EPOCH:
        if fresh_producer_id is None:
            return park(stored.transactional_id, request, context)
        producer_id, epoch = fresh_producer_id, 0
    else:
        epoch += 1
    renewed = stored.moved(
        State.EMPTY,
        context.timestamp_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        timeout_ms=_timeout_ms(request),
        started_timestamp_ms=-1,
    )
    outcome = _given(renewed, last_epoch, request, context)
    # After an abort by the coordinator no client has the identity, and the fence is on record already.
    is_fenced = stored.state is State.COMPLETE_ABORT and transaction.owner is None
    if not expects and not is_fenced:
        outcome.events = (_fenced(transaction, Identity(producer_id, epoch), context),)
    return outcome


def _keep(
    transaction: Transaction, request: InitProducerIdRequest, context: Context, fresh_producer_id: int | None
) -> TransactionOutcome:
    """KIP-939: the open transaction stays; the client gets an identity that can only end it."""
    stored = transaction.stored
    producer_id, epoch = client_identity(stored)
    if epoch < LAST_CLIENT_EPOCH:
        epoch += 1
    elif fresh_producer_id is None:
        return park(stored.transactional_id, request, context)
    else:
        producer_id, epoch = fresh_producer_id, 0
    kept = stored.moved(
        State.ONGOING,
        context.timestamp_ms,
        next_producer_id=producer_id,
        next_producer_epoch=epoch,
        timeout_ms=_timeout_ms(request),
    )
    outcome = _given(kept, NO_EPOCH, request, context)
    outcome.events = (_fenced(transaction, Identity(producer_id, epoch), context),)
    return outcome


def _given(
    stored: TransactionStored, last_epoch: int, request: InitProducerIdRequest, context: Context
) -> TransactionOutcome:
    producer_id, epoch = client_identity(stored)
    owner = Client(context.client_id, context.client_host)
    response = InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)
    if stored.is_kept:
        response.ongoing_txn_producer_id = stored.producer_id
        response.ongoing_txn_producer_epoch = stored.producer_epoch
    outcome: TransactionOutcome = Outcome(
        records=(stored,), notes=(IdentityGiven(stored.transactional_id, last_epoch, owner),)
    )
    return answered(outcome, stored.transactional_id, request, context, response)


def _fence(
    state: TransactionState,
    transaction: Transaction,
    request: InitProducerIdRequest,
    context: Context,
    fresh_producer_id: int | None,
) -> TransactionOutcome:
    """Abort the open transaction with a higher epoch. The client retries until that is complete."""
    stored = transaction.stored
    ending = fence_ending(state)
    if ending.needs_producer_id(stored, stored.is_kept) and fresh_producer_id is None:
        return park(stored.transactional_id, request, context)
    outcome = end(stored, ending, context, fresh_producer_id, last_epoch=epoch_after_fence(stored, ending))
    outcome.events = (
        aborted(transaction, TransactionEventCause.NEW_PRODUCER, context),
        _fenced(transaction, Identity(stored.producer_id, stored.producer_epoch + 1), context),
    )
    response = refused(ErrorCode.concurrent_transactions)
    return answered(outcome, stored.transactional_id, request, context, response)


def fence_ending(state: TransactionState) -> Ending:
    """An abort that the coordinator decides. It counts as version 2 if that is the finalized level."""
    version = EPOCH_BUMP_VERSION if state.version() >= EPOCH_BUMP_VERSION else 0
    return Ending(State.PREPARE_ABORT, version, is_fence=True)


def epoch_after_fence(stored: TransactionStored, ending: Ending) -> int:
    """With version 2 the fenced producer itself may go on; its InitProducerId reads as a repeated one."""
    return stored.producer_epoch if ending.client_version >= EPOCH_BUMP_VERSION else NO_EPOCH


def aborted(transaction: Transaction, cause: TransactionEventCause, context: Context) -> TransactionAborted:
    stored, owner = transaction.stored, transaction.owner or Client("", "")
    return TransactionAborted(
        transactional_id=stored.transactional_id,
        timestamp_ms=context.timestamp_ms,
        cause=cause,
        producer_id=stored.producer_id,
        producer_epoch=stored.producer_epoch,
        client_id=owner.client_id,
        client_host=owner.client_host,
        open_ms=context.timestamp_ms - stored.started_timestamp_ms,
        timeout_ms=stored.timeout_ms,
        partitions=stored.partitions,
    )


def _fenced(transaction: Transaction, by: Identity, context: Context) -> ProducerFenced:
    stored, owner = transaction.stored, transaction.owner or Client("", "")
    return ProducerFenced(
        transactional_id=stored.transactional_id,
        timestamp_ms=context.timestamp_ms,
        cause=TransactionEventCause.NEW_PRODUCER,
        producer_id=stored.producer_id,
        producer_epoch=stored.producer_epoch,
        client_id=owner.client_id,
        client_host=owner.client_host,
        by_client_id=context.client_id,
        by_client_host=context.client_host,
        new_producer_id=by.producer_id,
        new_producer_epoch=by.producer_epoch,
    )
