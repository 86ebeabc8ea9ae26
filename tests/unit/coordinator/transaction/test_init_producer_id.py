"""InitProducerId with a transactional id. Numbers are those of the specification's scenarios."""

from __future__ import annotations

import pytest

from klamm.coordinator.transaction.config import TransactionConfig
from klamm.coordinator.transaction.events import ProducerFenced, TransactionAborted, TransactionEventCause
from klamm.coordinator.transaction.remembered import NO_PARTITIONS
from klamm.coordinator.transaction.states import State
from klamm.protocol.errors import ErrorCode
from unit.coordinator.transaction.driver import FIRST_PRODUCER_ID, OUT_0, OUT_1, T, World

P = FIRST_PRODUCER_ID
FENCED, CONCURRENT = ErrorCode.producer_fenced, ErrorCode.concurrent_transactions


# scenario 24 of transactions
def test_an_empty_id_is_an_invalid_request() -> None:
    assert World().init("").error is ErrorCode.invalid_request


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
# scenario 25 of transactions
def test_a_timeout_out_of_range_is_refused_even_while_the_shard_loads(timeout_ms: int) -> None:
    world = World(elect=False)
    world.elect()
    assert world.init(timeout_ms=timeout_ms).error is ErrorCode.invalid_transaction_timeout
    assert world.init().error is ErrorCode.coordinator_load_in_progress


# scenario 26 of transactions
def test_a_new_id_begins_at_epoch_0() -> None:
    world = World()
    assert world.init().identity == (P, 0)
    (record,) = world.written()
    assert record.state is State.EMPTY
    assert record.partitions == NO_PARTITIONS
    assert record.previous_producer_id == P  # as Kafka writes it
    assert record.started_timestamp_ms == -1


# scenario 27 of transactions
def test_each_new_instance_gets_the_next_epoch() -> None:
    world = World()
    assert [world.init().identity for _ in range(3)] == [(P, 0), (P, 1), (P, 2)]


# scenario 28 of transactions
def test_a_bump_that_is_repeated_is_answered_the_same_any_number_of_times() -> None:
    world = World()
    for _ in range(4):
        world.init()
    assert [world.init(expected=(P, 3)).identity for _ in range(3)] == [(P, 4)] * 3
    # Until another instance comes: then the old one is out.
    assert world.init().identity == (P, 5)
    assert world.init(expected=(P, 3)).error is FENCED


@pytest.mark.parametrize(("version", "expected"), [(5, 90), (4, 90), (3, 47)])
# scenario 29 of transactions
def test_an_older_epoch_is_fenced(version: int, expected: int) -> None:
    world = World()
    for _ in range(5):
        world.init()
    assert world.init(expected=(P, 3), version=version).error == expected


# scenario 30 of transactions
def test_a_foreign_producer_id_is_fenced() -> None:
    world = World()
    world.init()
    assert world.init(expected=(P + 1, 0)).error is FENCED


# scenario 31 of transactions
def test_epochs_that_are_used_up_lead_to_a_new_producer_id() -> None:
    world = World()
    world.at_epoch(32_766)
    assert world.init(expected=(P, 32_766)).identity == (P + 1, 0)
    assert world.stored().previous_producer_id == P
    # Repeated once, as in Kafka: the repeat itself makes the new producer id the former one.
    assert world.init(expected=(P, 32_766)).identity == (P + 1, 0)
    assert world.init(expected=(P, 32_766)).error is FENCED


def test_an_instance_without_expectation_rotates_too_and_the_old_one_is_fenced() -> None:
    world = World()
    world.at_epoch(32_766)
    assert world.init().identity == (P + 1, 0)
    assert world.init(expected=(P, 32_766)).error is FENCED


def test_the_last_epoch_for_clients_may_be_asked_for_again_but_the_one_for_fencing_never() -> None:
    world = World(version=0)
    world.at_epoch(32_765)
    assert world.init(expected=(P, 32_765)).identity == (P, 32_766)
    assert world.init(expected=(P, 32_765)).identity == (P, 32_766)
    assert world.add_one((P, 32_766)) is ErrorCode.none
    assert world.init().error is CONCURRENT
    assert (world.stored().producer_id, world.stored().producer_epoch) == (P, 32_767)
    assert world.init(expected=(P, 32_766)).error is FENCED
    assert world.init().identity == (P + 1, 0)


@pytest.mark.parametrize("expected", [(-1, 5), (5, -1)])
# scenario 32 of transactions
def test_half_an_identity_is_an_invalid_request(expected: tuple[int, int]) -> None:
    assert World().init(expected=expected).error is ErrorCode.invalid_request


# scenario 33 of transactions
def test_a_new_instance_aborts_what_is_open_and_waits_for_it() -> None:
    world = World()
    assert world.open(OUT_0) == (P, 0)
    world.holds_markers = True
    assert world.init(client_id="second").error is CONCURRENT
    assert world.init(client_id="second").error is CONCURRENT
    assert world.state_name() == "PrepareAbort"
    world.release_markers()
    assert world.state_name() == "CompleteAbort"
    assert world.init(client_id="second").identity == (P, 2)
    (_, marker), *_ = world.markers
    assert (marker.producer_id, marker.producer_epoch, marker.is_commit) == (P, 1, False)


# scenario 33 of transactions
def test_the_producer_itself_goes_on_with_the_epoch_of_the_fence() -> None:
    world = World()
    world.open()
    assert world.init(expected=(P, 0)).error is CONCURRENT
    assert world.init(expected=(P, 0)).identity == (P, 1)


def test_in_an_open_transaction_the_producer_id_is_checked_and_the_epoch_is_not() -> None:
    world = World()
    world.open()
    assert world.init(expected=(P + 9, 0)).error is FENCED
    assert world.state_name() == "Ongoing"
    assert world.init(expected=(P, 7)).error is CONCURRENT
    assert world.init(expected=(P, 7)).error is FENCED


# scenario 34 of transactions
def test_a_fence_that_cannot_be_written_raises_the_epoch_once() -> None:
    world = World()
    world.open()
    world.log.refuse_with = ErrorCode.not_enough_replicas
    assert [world.init().error for _ in range(2)] == [ErrorCode.coordinator_not_available] * 2
    world.log.refuse_with = None
    assert world.init().error is CONCURRENT
    assert world.init().identity == (P, 2)


# scenario 34 of transactions
def test_also_when_the_flush_fails_after_the_append() -> None:
    world = World()
    world.open()
    world.log.is_holding = True
    call = world.init()
    assert not call.is_answered
    world.shard.on_flush_failed()
    world.load_all()
    assert call.error is ErrorCode.not_coordinator
    assert world.state_name() == "Ongoing"
    assert not world.markers
    world.log.is_holding = False
    assert world.init().error is CONCURRENT
    assert world.init().identity == (P, 2)


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        (ErrorCode.unknown_topic_or_partition, 15),
        (ErrorCode.not_enough_replicas, 15),
        (ErrorCode.not_enough_replicas_after_append, 15),
        (ErrorCode.request_timed_out, 15),
        (ErrorCode.not_leader_or_follower, 16),
        (ErrorCode.kafka_storage_error, 16),
        (ErrorCode.message_too_large, -1),
    ],
)
def test_errors_of_the_log_become_what_clients_understand(refusal: ErrorCode, expected: int) -> None:
    world = World()
    world.log.refuse_with = refusal
    assert world.init().error == expected
    world.log.refuse_with = None
    assert world.init().identity == (P + 1, 0)  # nothing is left pending, and a gap in the ids is harmless


def test_a_new_id_is_only_asked_for_when_it_is_needed() -> None:
    world = World()
    world.init()
    world.init()
    assert next(world.producer_ids) == P + 1


def test_while_a_producer_id_is_on_its_way_others_wait() -> None:
    world = World()
    world.at_epoch(32_766)
    world.holds_producer_ids = True
    first = world.init()
    assert not first.is_answered
    assert world.init().error is CONCURRENT
    assert world.add_one((P, 32_766)) is CONCURRENT
    assert world.end((P, 32_766)).error is CONCURRENT
    world.release_producer_ids()
    assert first.identity == (P + 1, 0)


@pytest.mark.parametrize(
    "error_code", [ErrorCode.coordinator_load_in_progress, ErrorCode.unknown_server_error]
)
def test_no_producer_id_is_an_error_and_leaves_nothing_behind(error_code: ErrorCode) -> None:
    world = World()
    world.no_producer_ids = error_code
    response = world.init().response
    assert (response.error_code, response.producer_id, response.producer_epoch) == (error_code, -1, -1)
    world.no_producer_ids = None
    assert world.init().identity == (P, 0)


def test_a_request_that_waits_for_a_producer_id_is_answered_when_the_shard_goes() -> None:
    world = World()
    world.holds_producer_ids = True
    call = world.init()
    world.coordinator.shards.resign(0, 99)
    assert call.error is ErrorCode.not_coordinator
    world.release_producer_ids()  # too late, and harmless


def test_the_new_timeout_counts() -> None:
    world = World()
    world.init(timeout_ms=5)
    world.init(timeout_ms=7)
    assert world.stored().timeout_ms == 7


def test_a_fence_at_the_last_epoch_brings_a_new_producer_id_with_it() -> None:
    world = World()
    identity = world.at_epoch(32_766)
    assert world.add_one(identity) is ErrorCode.none
    assert world.init().error is CONCURRENT
    (_, marker), *_ = world.markers
    assert (marker.producer_id, marker.producer_epoch) == (P, 32_767)
    assert (world.stored().producer_id, world.stored().producer_epoch) == (P + 1, 0)
    assert world.init().identity == (P + 1, 1)


def test_before_version_2_the_rotation_is_left_to_the_next_instance() -> None:
    world = World(version=1)
    identity = world.at_epoch(32_766)
    assert world.add_one(identity) is ErrorCode.none
    assert world.init().error is CONCURRENT
    assert (world.stored().producer_id, world.stored().producer_epoch) == (P, 32_767)
    assert world.init().identity == (P + 1, 0)


def test_a_fence_says_by_what_and_how_long_the_transaction_was_open() -> None:
    world = World()
    world.open(OUT_0, OUT_1, client_id="old")
    world.clock.advance(1_234)
    world.init(client_id="new")
    world.init(client_id="new")  # the same fence, not another
    aborted, fenced = world.events
    assert isinstance(aborted, TransactionAborted)
    assert (aborted.cause, aborted.open_ms, aborted.client_id) == (
        TransactionEventCause.NEW_PRODUCER,
        1_234,
        "old",
    )
    assert aborted.as_json()["partitions"] == ["out-0", "out-1"]
    assert aborted.as_json()["type"] == "transaction_aborted"
    assert isinstance(fenced, ProducerFenced)
    assert (fenced.client_id, fenced.by_client_id, fenced.by_client_host) == ("old", "new", "/127.0.0.1")
    assert aborted.key == T
    assert "after 1234 ms" in aborted.line()
    assert "client new at /127.0.0.1" in fenced.line()


def test_a_new_instance_fences_an_idle_one_and_that_is_on_record() -> None:
    world = World()
    world.init(client_id="old")
    world.init(expected=(P, 0), client_id="old")
    assert not world.events
    world.init(client_id="new")
    (fenced,) = world.events
    assert isinstance(fenced, ProducerFenced)
    assert (fenced.producer_epoch, fenced.new_producer_epoch) == (1, 2)
    assert (fenced.client_id, fenced.by_client_id) == ("old", "new")


# --- two-phase commit (KIP-939) ----------------------------------------------------------------------

TWO_PHASE = TransactionConfig(
    transaction_two_phase_commit_enable=True,
    transaction_abort_timed_out_transaction_cleanup_interval_ms=3_600_000,
)


# scenario 100 of transactions
def test_two_phase_commit_needs_its_setting() -> None:
    world = World()
    assert world.init(two_phase=True, version=6).error is ErrorCode.transactional_id_authorization_failed
    assert world.init(keeps=True, version=6).error is ErrorCode.unsupported_version


def test_a_transaction_in_two_phases_is_never_timed_out() -> None:
    world = World(TWO_PHASE)
    identity = world.init(two_phase=True, version=6, timeout_ms=0).identity
    assert world.add_one(identity) is ErrorCode.none
    world.pass_ms(40 * 86_400_000)
    assert world.state_name() == "Ongoing"
    world.restart()
    world.pass_ms(86_400_000)
    assert world.end(identity, version=5).identity == (P, 1)
    assert world.state_name() == "CompleteCommit"


def test_a_kept_transaction_is_ended_by_the_new_identity_alone() -> None:
    world = World(TWO_PHASE)
    world.init(two_phase=True, version=6)
    assert world.add_one((P, 0), version=5) is ErrorCode.none
    response = world.init(two_phase=True, keeps=True, version=6).response
    assert (response.producer_id, response.producer_epoch) == (P, 1)
    assert (response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch) == (P, 0)
    world.restart()
    again = world.init(two_phase=True, keeps=True, version=6).response
    assert (again.producer_id, again.producer_epoch) == (P, 2)
    assert (again.ongoing_txn_producer_id, again.ongoing_txn_producer_epoch) == (P, 0)
    # The producers before are out.
    for old in ((P, 0), (P, 1)):
        assert world.end(old, version=5).error is FENCED
        assert world.add_one(old, OUT_1, version=5) is FENCED
        assert world.verify(old, OUT_0)[OUT_0] is FENCED
    # The new one can add nothing to what it was given.
    assert world.add_one((P, 2), OUT_1, version=5) is ErrorCode.invalid_txn_state
    world.holds_markers = True
    assert world.end((P, 2), version=5).identity == (P, 3)
    assert world.end((P, 2), version=5).error is CONCURRENT
    (_, marker), *_ = world.markers
    assert (marker.producer_id, marker.producer_epoch, marker.is_commit) == (P, 1, True)
    world.release_markers()
    assert (world.stored().producer_id, world.stored().producer_epoch) == (P, 3)
    assert world.end((P, 2), version=5).identity == (P, 3)  # the same, repeated


def test_a_kept_transaction_of_a_producer_id_that_is_used_up_is_ended_by_another() -> None:
    world = World(TWO_PHASE)
    identity = world.at_epoch(32_766)
    assert world.add_one(identity, version=5) is ErrorCode.none
    kept = world.init(two_phase=True, keeps=True, version=6).response
    assert (kept.producer_id, kept.producer_epoch) == (P + 1, 0)
    assert world.end((P + 1, 0), version=5, commit=False).identity == (P + 1, 1)
    (_, marker), *_ = world.markers
    assert (marker.producer_id, marker.producer_epoch, marker.is_commit) == (P, 32_767, False)
    assert (world.stored().producer_id, world.stored().producer_epoch) == (P + 1, 1)
    assert world.stored().previous_producer_id == P + 1


def test_a_kept_transaction_is_aborted_by_an_instance_that_does_not_keep_it() -> None:
    world = World(TWO_PHASE)
    world.open(version=5, two_phase=True)
    world.init(two_phase=True, keeps=True, version=6)
    assert world.init().error is CONCURRENT
    assert world.init().identity == (P, 3)
    assert world.end((P, 1), version=5).error is FENCED


def test_nothing_open_and_keeping_it_is_a_plain_bump() -> None:
    world = World(TWO_PHASE)
    assert world.init(keeps=True, version=6).identity == (P, 0)
    response = world.init(keeps=True, version=6).response
    assert (response.producer_epoch, response.ongoing_txn_producer_id) == (1, -1)
