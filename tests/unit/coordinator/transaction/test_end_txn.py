"""EndTxn in both protocols. Numbers are the specification's scenarios."""

from __future__ import annotations

import pytest

from klamm.coordinator.transaction.end_txn import MAX_HELD_MS
from klamm.coordinator.transaction.states import State
from klamm.protocol.errors import ErrorCode
from unit.coordinator.transaction.driver import FIRST_PRODUCER_ID, OUT_0, OUT_1, Identity, World

P = FIRST_PRODUCER_ID
NONE, WRONG, FENCED = ErrorCode.none, ErrorCode.invalid_txn_state, ErrorCode.producer_fenced
CONCURRENT, NO_MAPPING = ErrorCode.concurrent_transactions, ErrorCode.invalid_producer_id_mapping


# scenario 41 of transactions
def test_a_commit_is_answered_when_it_is_decided_and_completed_when_it_is_marked() -> None:
    world = World()
    identity = world.open(OUT_0, OUT_1)
    world.log.is_holding = True
    world.holds_markers = True
    call = world.end(identity)
    assert not call.is_answered
    assert not world.markers  # no partition hears of what may yet be lost
    world.flush()
    assert call.error is NONE
    assert world.state_name() == "PrepareCommit"
    ((coordinator_epoch, marker),) = world.markers
    assert coordinator_epoch == world.shard.epoch
    assert (marker.producer_id, marker.producer_epoch, marker.is_commit) == (P, 0, True)
    assert marker.partitions == {OUT_0, OUT_1}
    assert marker.transaction_version == 0
    world.release_markers()
    assert world.state_name() == "CompleteCommit"
    assert [each.state for each in world.written()] == [
        State.EMPTY,
        State.ONGOING,
        State.PREPARE_COMMIT,
        State.COMPLETE_COMMIT,
    ]


@pytest.mark.parametrize("commit", [True, False])
# scenarios 42, 43 of transactions
def test_what_is_complete_may_be_asked_for_again_but_not_changed(commit: bool) -> None:
    world = World()
    identity = world.open()
    assert world.end(identity, commit=commit).error is NONE
    assert world.end(identity, commit=commit).error is NONE
    assert world.end(identity, commit=not commit).error is WRONG
    assert len(world.markers) == 1


@pytest.mark.parametrize("version", [4, 5])
# scenario 44 of transactions
def test_while_markers_are_on_their_way_either_result_must_wait(version: int) -> None:
    world = World()
    identity = world.open()
    world.holds_markers = True
    world.end(identity, version=version)
    assert world.end(identity, version=version).error is CONCURRENT
    assert world.end(identity, version=version, commit=False).error is CONCURRENT
    assert world.init().error is CONCURRENT


# scenario 45 of transactions
def test_there_is_nothing_to_end() -> None:
    world = World()
    identity = world.init().identity
    assert world.end(identity).error is WRONG
    assert world.end(identity, commit=False).error is WRONG


# scenario 46 of transactions
def test_an_abort_of_nothing_raises_the_epoch_and_marks_nothing() -> None:
    world = World()
    identity = world.init().identity
    assert world.end(identity, commit=False, version=5).identity == (P, 1)
    assert not world.markers
    assert [each.state for each in world.written()] == [
        State.EMPTY,
        State.PREPARE_ABORT,
        State.COMPLETE_ABORT,
    ]
    assert world.stored().started_timestamp_ms == world.clock.timestamp_ms()
    assert world.end((P, 1), commit=False, version=5).identity == (P, 2)
    assert world.end((P, 2), version=5).error is WRONG


# scenario 47 of transactions
def test_a_commit_whose_response_was_lost_is_answered_again() -> None:
    world = World()
    identity = world.open(version=5)
    world.holds_markers = True
    assert world.end(identity, version=5).identity == (P, 1)
    lost = world.end(identity, version=5).response
    assert (lost.error_code, lost.producer_id, lost.producer_epoch) == (CONCURRENT, -1, -1)
    world.release_markers()
    assert world.end(identity, version=5).identity == (P, 1)
    assert world.end(identity, version=5, commit=False).error is WRONG
    (_, marker), *others = world.markers
    assert (marker.producer_epoch, marker.transaction_version) == (1, 2)
    assert not others


# scenarios 48, 49 of transactions
def test_the_next_transaction_has_the_next_epoch() -> None:
    world = World()
    identity = world.open(version=5)
    world.end(identity, version=5)
    assert world.add_one(identity, version=5) is FENCED
    assert world.add_one((P, 1), version=5) is NONE
    assert world.end(identity, version=5).error is FENCED
    assert world.end((P, 1), version=5, commit=False).identity == (P, 2)


# scenario 50 of transactions
def test_a_rotation_is_announced_at_once_and_takes_effect_at_the_end() -> None:
    world = World()
    identity = world.at_epoch(32_766)
    assert world.add_one(identity, version=5) is NONE
    world.holds_markers = True
    assert world.end(identity, version=5).identity == (P + 1, 0)
    # Both the old identity and the next must wait, and neither is unknown.
    assert world.end(identity, version=5).error is CONCURRENT
    assert world.end((P + 1, 0), version=5, commit=False).error is CONCURRENT
    assert world.add_one((P + 1, 0), version=5) is CONCURRENT
    (_, marker), *_ = world.markers
    assert (marker.producer_id, marker.producer_epoch) == (P, 32_767)
    assert (world.stored().producer_id, world.stored().next_producer_id) == (P, P + 1)
    # That survives a new coordinator.
    world.restart()
    assert world.add_one((P + 1, 0), version=5) is CONCURRENT
    world.release_markers()
    assert world.end(identity, version=5).identity == (P + 1, 0)
    world.restart()
    assert world.end(identity, version=5).identity == (P + 1, 0)
    assert world.add_one((P + 1, 0), version=5) is NONE
    assert world.end(identity, version=5).error in (FENCED, NO_MAPPING)


def test_a_client_hears_of_the_end_when_the_transaction_is_complete() -> None:
    # Given a transaction whose markers are on their way
    world = World()
    identity = world.open()
    world.holds_markers = True
    ending = world.end_later(identity)
    assert not ending.is_answered
    # When they are written, then the client is answered, and may begin the next one at once
    world.release_markers()
    assert ending.error is NONE
    assert world.add_one(identity) is NONE
    world.pass_ms(MAX_HELD_MS)
    assert len(ending.answers) == 1


def test_a_client_does_not_wait_for_the_record_of_the_completion() -> None:
    world = World()
    identity = world.open()
    world.holds_markers = True
    ending = world.end_later(identity)
    # Given a disk that takes long when the markers are written
    world.log.is_holding = True
    world.release_markers()
    assert ending.error is NONE
    # When what is in the log alone is lost, then the transaction is completed once more
    assert world.state_name() == "CompleteCommit"
    world.restart()
    assert [marker.is_commit for _, marker in world.markers] == [True, True]
    assert world.state_name() == "CompleteCommit"


def test_nothing_of_the_next_transaction_is_durable_before_the_completion_of_the_last() -> None:
    world = World()
    identity = world.open()
    world.log.is_holding = True
    world.end_later(identity)
    world.flush()
    call = world.add_later(identity)
    assert (world.state_name(), call.is_answered) == ("Ongoing", False)
    world.restart()
    assert world.state_name() == "CompleteCommit"


def test_a_client_does_not_wait_long_for_markers() -> None:
    world = World()
    identity = world.open()
    world.holds_markers = True
    ending = world.end_later(identity)
    world.pass_ms(MAX_HELD_MS - 1)
    assert not ending.is_answered
    world.pass_ms(1)
    assert ending.error is NONE
    assert world.stored().state is State.PREPARE_COMMIT


def test_each_client_waits_as_long_for_markers() -> None:
    world = World()
    world.holds_markers = True
    first = world.end_later(world.open(transactional_id="first"), transactional_id="first")
    world.pass_ms(MAX_HELD_MS // 2)
    second = world.end_later(world.open(transactional_id="second"), transactional_id="second")
    world.pass_ms(MAX_HELD_MS // 2)
    assert (first.is_answered, second.is_answered) == (True, False)
    world.pass_ms(MAX_HELD_MS // 2 - 1)
    assert not second.is_answered
    world.pass_ms(1)
    assert (first.error, second.error) == (NONE, NONE)
    # And so does one that begins when nobody waits
    third = world.end_later(world.open(transactional_id="third"), transactional_id="third")
    world.pass_ms(MAX_HELD_MS)
    assert third.error is NONE
    assert not world.state.held_ends


def test_a_client_that_waits_for_markers_is_sent_to_the_next_coordinator() -> None:
    world = World()
    identity = world.open()
    world.holds_markers = True
    ending = world.end_later(identity)
    for shard in world.coordinator.shards:
        shard.unload()
    assert ending.error is ErrorCode.not_coordinator


def test_an_end_that_waits_for_a_producer_id_is_decided_once() -> None:
    world = World()
    identity = world.at_epoch(32_766)
    world.add_one(identity, version=5)
    world.holds_producer_ids = True
    call = world.end(identity, version=5)
    assert not call.is_answered
    assert world.end(identity, version=5).error is CONCURRENT
    world.pass_ms(1_000_000)  # the time-out does not come in between
    assert world.state_name() == "Ongoing"
    world.release_producer_ids()
    assert call.identity == (P + 1, 0)
    assert world.state_name() == "CompleteCommit"


def prepared(world: World, commit: bool) -> None:
    world.holds_markers = True
    world.end(world.open(version=5), commit=commit, version=5)


def completed(world: World, commit: bool) -> None:
    world.end(world.open(version=5), commit=commit, version=5)


@pytest.mark.parametrize(
    ("name", "epoch", "commit", "expected"),
    [
        ("Empty", 1, True, 48),
        ("Empty", 1, False, 0),
        ("Empty", 0, True, 90),
        ("Empty", 0, False, 90),
        ("Ongoing", 1, True, 0),
        ("Ongoing", 1, False, 0),
        ("Ongoing", 0, True, 90),
        ("Ongoing", 0, False, 90),
        ("PrepareCommit", 1, True, 51),
        ("PrepareCommit", 1, False, 51),
        ("PrepareCommit", 0, True, 51),
        ("PrepareCommit", 0, False, 51),
        ("PrepareAbort", 1, True, 51),
        ("PrepareAbort", 0, False, 51),
        ("CompleteCommit", 1, True, 48),
        ("CompleteCommit", 1, False, 0),
        ("CompleteCommit", 0, True, 0),
        ("CompleteCommit", 0, False, 48),
        ("CompleteAbort", 1, True, 48),
        ("CompleteAbort", 1, False, 0),
        ("CompleteAbort", 0, True, 48),
        ("CompleteAbort", 0, False, 0),
        ("CompleteAbort", 7, False, 90),
    ],
)
def test_version_5_is_answered_by_state_and_epoch(name: str, epoch: int, commit: bool, expected: int) -> None:
    world = World()
    match name:
        case "Empty":
            world.init()
            world.init()
        case "Ongoing":
            world.init()
            world.open(version=5)
        case "PrepareCommit" | "PrepareAbort":
            prepared(world, commit=name == "PrepareCommit")
        case _:
            completed(world, commit=name == "CompleteCommit")
    assert world.state_name() == name
    assert world.stored().producer_epoch == 1
    assert world.end((P, epoch), commit=commit, version=5).error == expected


def test_the_producer_id_is_checked_before_the_epoch() -> None:
    world = World()
    world.open()
    for version in (4, 5):
        assert world.end((P + 1, 9), version=version).error is NO_MAPPING
        assert world.end((P, 9), version=version).error is FENCED


def test_a_commit_in_the_old_protocol_keeps_the_epoch() -> None:
    world = World()
    identity = world.open()
    world.end(identity)
    assert world.stored().producer_epoch == 0
    assert world.add_one(identity) is NONE


def test_a_client_that_is_ahead_of_its_transaction_waits_and_then_learns_the_truth() -> None:
    world = World()
    identity = world.open(version=5)
    world.holds_markers = True
    following: Identity = world.end(identity, version=5).identity
    assert world.end(following, version=5).error is CONCURRENT
    world.release_markers()
    assert world.end(following, version=5).error is WRONG
    assert world.end(following, version=5, commit=False).identity == (P, 2)
