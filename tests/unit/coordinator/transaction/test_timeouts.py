"""Transactions that are open for too long, and ids that are not used. Numbers are the scenarios'."""

from __future__ import annotations

from klamm.coordinator.transaction import timeouts
from klamm.coordinator.transaction.config import TransactionConfig
from klamm.coordinator.transaction.events import (
    TransactionAborted,
    TransactionalIdExpired,
    TransactionEventCause,
)
from klamm.protocol.errors import ErrorCode
from unit.coordinator.transaction.driver import (
    ABORT_INTERVAL_MS,
    FIRST_PRODUCER_ID,
    OUT_0,
    OUT_1,
    TIMEOUT_MS,
    T,
    World,
)

P = FIRST_PRODUCER_ID
WEEK_MS = 604_800_000
HOUR_MS = 3_600_000
WEEKS = TransactionConfig(transaction_abort_timed_out_transaction_cleanup_interval_ms=HOUR_MS)


# scenario 51 of transactions
def test_a_transaction_over_its_time_is_aborted_with_a_higher_epoch() -> None:
    world = World()
    world.open(OUT_0, client_id="slow")
    world.pass_ms(TIMEOUT_MS)
    assert world.state_name() == "Ongoing"
    world.pass_ms(ABORT_INTERVAL_MS)
    assert world.state_name() == "CompleteAbort"
    assert world.stored().producer_epoch == 1
    ((_, marker),) = world.markers
    assert (marker.producer_epoch, marker.is_commit) == (1, False)
    (event,) = world.events
    assert isinstance(event, TransactionAborted)
    assert (event.cause, event.client_id, event.timeout_ms) == (
        TransactionEventCause.TIMED_OUT,
        "slow",
        TIMEOUT_MS,
    )
    assert TIMEOUT_MS < event.open_ms <= TIMEOUT_MS + ABORT_INTERVAL_MS


# scenario 52 of transactions
def test_the_producer_that_was_too_slow_is_a_zombie() -> None:
    def timed_out() -> World:
        world = World()
        world.open()
        world.pass_ms(TIMEOUT_MS + ABORT_INTERVAL_MS)
        return world

    for version in (2, 4):
        assert timed_out().end((P, 0), version=version).error is ErrorCode.producer_fenced
    assert timed_out().end((P, 0), version=5).error is ErrorCode.invalid_txn_state
    assert timed_out().end((P, 0), version=5, commit=False).identity == (P, 1)
    assert timed_out().add_one((P, 0)) is ErrorCode.producer_fenced
    assert timed_out().add_one((P, 0), version=5) is ErrorCode.producer_fenced
    assert timed_out().init(expected=(P, 0)).identity == (P, 1)
    assert timed_out().init().identity == (P, 2)


# scenario 53 of transactions
def test_sending_steadily_does_not_prolong_a_transaction() -> None:
    world = World()
    identity = world.open(OUT_0)
    for _ in range(7):
        world.pass_ms(TIMEOUT_MS // 6)
        world.add_one(identity, OUT_1)
    world.pass_ms(ABORT_INTERVAL_MS)
    assert world.state_name() == "CompleteAbort"


# scenario 54 of transactions
def test_what_is_being_ended_is_not_timed_out() -> None:
    world = World()
    identity = world.open()
    world.holds_markers = True
    world.end(identity)
    world.pass_ms(10 * TIMEOUT_MS)
    assert world.state_name() == "PrepareCommit"
    assert not world.events


def test_a_time_out_that_cannot_be_written_is_tried_again() -> None:
    world = World()
    world.open()
    world.log.refuse_with = ErrorCode.not_enough_replicas
    world.pass_ms(2 * TIMEOUT_MS)
    assert world.state_name() == "Ongoing"
    world.log.refuse_with = None
    world.pass_ms(ABORT_INTERVAL_MS)
    assert world.state_name() == "CompleteAbort"
    assert world.stored().producer_epoch == 1


def test_a_time_out_at_the_last_epoch_brings_a_new_producer_id() -> None:
    world = World()
    identity = world.at_epoch(32_766)
    world.add_one(identity)
    world.log.refuse_with = ErrorCode.not_enough_replicas
    world.pass_ms(TIMEOUT_MS + ABORT_INTERVAL_MS)
    world.log.refuse_with = None
    world.pass_ms(ABORT_INTERVAL_MS)
    assert world.state_name() == "CompleteAbort"
    assert world.stored().producer_epoch == 0
    assert world.init().identity[1] == 1


def test_without_a_producer_id_the_time_out_waits_for_the_next_look() -> None:
    world = World()
    identity = world.at_epoch(32_766)
    world.add_one(identity)
    world.no_producer_ids = ErrorCode.coordinator_load_in_progress
    world.pass_ms(TIMEOUT_MS + ABORT_INTERVAL_MS)
    assert world.state_name() == "Ongoing"
    world.no_producer_ids = None
    world.pass_ms(ABORT_INTERVAL_MS)
    assert world.state_name() == "CompleteAbort"


def test_many_at_once_are_aborted_in_turns() -> None:
    world = World()
    names = [f"t{number}" for number in range(2 * timeouts.ABORTS_AT_A_TIME + 1)]
    for name in names:
        world.open(transactional_id=name)
    world.pass_ms(TIMEOUT_MS + ABORT_INTERVAL_MS + 100)
    assert {world.state_name(name) for name in names} == {"CompleteAbort"}


# scenarios 55, 56 of transactions
def test_an_id_that_is_not_used_for_a_week_is_forgotten() -> None:
    world = World(WEEKS)
    identity = world.open()
    world.end(identity)
    world.pass_ms(WEEK_MS - HOUR_MS)
    assert world.state_name() == "CompleteCommit"
    world.pass_ms(2 * HOUR_MS)
    assert T not in world.state.transactions
    assert world.log.records()[-1].value is None
    assert world.describe().error_code == ErrorCode.transactional_id_not_found
    assert isinstance(world.events[-1], TransactionalIdExpired)
    assert world.add_one(identity) is ErrorCode.invalid_producer_id_mapping
    assert world.init(expected=identity).identity == (P + 1, 0)


# scenario 57 of transactions
def test_an_open_transaction_is_kept_however_old_it_is() -> None:
    world = World(WEEKS)
    world.open()
    world.log.refuse_with = ErrorCode.not_enough_replicas  # so that the time-out cannot end it
    world.pass_ms(2 * WEEK_MS)
    assert world.state_name() == "Ongoing"


def test_an_expiry_that_cannot_be_written_is_tried_again() -> None:
    world = World(WEEKS)
    world.init()
    world.log.refuse_with = ErrorCode.kafka_storage_error
    world.pass_ms(WEEK_MS + HOUR_MS)
    assert T in world.state.transactions
    world.log.refuse_with = None
    world.pass_ms(HOUR_MS)
    assert T not in world.state.transactions


def test_tombstones_go_in_batches_that_fit() -> None:
    world = World(WEEKS)
    for number in range(40):
        world.init(f"t{number}")
    world.log.max_batch_bytes = 400
    world.pass_ms(WEEK_MS + HOUR_MS)
    assert not world.state.transactions
    world.restart()
    assert not world.state.transactions
