"""Markers and what becomes of them, coordinators that die, and loading. Numbers are the scenarios'."""

from __future__ import annotations

import pytest

from klamm.coordinator.runtime.shard import ShardStatus
from klamm.coordinator.transaction.actions import WriteMarkers
from klamm.coordinator.transaction.events import TransactionStuck
from klamm.coordinator.transaction.records import encode_key
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.describe_transactions import DescribeTransactionsRequest
from klamm.records.record import Record, encode_batch
from unit.coordinator.transaction.driver import FIRST_PRODUCER_ID, OUT_0, OUT_1, TIMEOUT_MS, T, World

P = FIRST_PRODUCER_ID
NONE = ErrorCode.none

RETRIED = [
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.not_leader_or_follower,
    ErrorCode.not_enough_replicas,
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.request_timed_out,
    ErrorCode.kafka_storage_error,
    ErrorCode.network_exception,
]


def committed(world: World) -> None:
    assert world.end(world.open(OUT_0, OUT_1)).error is NONE


@pytest.mark.parametrize("error_code", RETRIED)
# scenario 87 of transactions
def test_a_marker_that_may_succeed_later_is_sent_again_until_it_does(error_code: ErrorCode) -> None:
    world = World()
    world.marker_errors = {OUT_1: error_code}
    committed(world)
    world.pass_ms(30_000)
    assert world.state_name() == "PrepareCommit"
    assert world.describe().topics[0].partitions == [1]
    sent = [order.partitions for _, order in world.markers]
    assert sent[0] == {OUT_0, OUT_1}
    assert set(sent[1:]) == {frozenset((OUT_1,))}
    assert 30 <= len(sent) <= 40  # with back-off up to a second
    world.marker_errors.clear()
    world.pass_ms(1_000)
    assert world.state_name() == "CompleteCommit"
    count = len(world.markers)
    world.pass_ms(30_000)
    assert len(world.markers) == count


@pytest.mark.parametrize(
    "error_code", [ErrorCode.unsupported_for_message_format, ErrorCode.unsupported_version]
)
def test_a_partition_that_can_hold_no_marker_is_left_out(error_code: ErrorCode) -> None:
    world = World()
    world.marker_errors = {OUT_1: error_code}
    committed(world)
    assert world.state_name() == "CompleteCommit"


@pytest.mark.parametrize(
    "error_code",
    [
        ErrorCode.invalid_producer_epoch,
        ErrorCode.transaction_coordinator_fenced,
        ErrorCode.corrupt_message,
        ErrorCode.unknown_server_error,
    ],
)
# scenario 86 of transactions
def test_a_coordinator_that_is_fenced_stops_and_the_next_one_finishes(error_code: ErrorCode) -> None:
    world = World()
    world.marker_errors = {OUT_1: error_code}
    committed(world)
    world.pass_ms(TIMEOUT_MS)
    assert len(world.markers) == 1
    assert world.state_name() == "PrepareCommit"
    (event,) = world.events
    assert isinstance(event, TransactionStuck)
    assert event.partitions == {OUT_1}
    assert error_code.name.upper() in event.line()
    assert event.is_warning
    world.marker_errors.clear()
    world.restart()
    assert world.state_name() == "CompleteCommit"


@pytest.mark.parametrize(("commit", "name"), [(True, "CompleteCommit"), (False, "CompleteAbort")])
@pytest.mark.parametrize("marked", [0, 1, 2])
# scenarios 80, 81, 82, 84 of transactions
def test_a_new_coordinator_finishes_what_was_decided(commit: bool, name: str, marked: int) -> None:
    world = World()
    identity = world.open(OUT_0, OUT_1)
    world.holds_markers = True
    world.end(identity, commit=commit)
    shard, order = world.actions[0]
    assert isinstance(order, WriteMarkers)
    done = dict.fromkeys((OUT_0, OUT_1)[:marked], NONE)
    if marked == 2:
        world.log.refuse_with = ErrorCode.kafka_storage_error  # dies before Complete is written
    world.report(shard, order, done)
    world.log.refuse_with = None
    epoch = world.shard.epoch
    world.restart()
    assert world.shard.epoch > epoch
    coordinator_epoch, again = world.markers[-1]
    assert coordinator_epoch == world.shard.epoch
    assert again.partitions == {OUT_0, OUT_1}
    assert again.is_commit is commit
    world.release_markers()
    assert world.state_name() == name


# scenario 83 of transactions
def test_a_decision_that_was_not_durable_is_made_again() -> None:
    world = World()
    identity = world.open()
    world.log.is_holding = True
    world.end(identity)
    world.log.is_holding = False
    world.restart()
    assert world.state_name() == "Ongoing"
    assert not world.markers
    assert world.end(identity).error is NONE
    assert len(world.markers) == 1


# scenario 85 of transactions
def test_an_open_transaction_stays_open_and_its_time_goes_on() -> None:
    world = World()
    identity = world.open()
    started_ms = world.stored().started_timestamp_ms
    world.pass_ms(TIMEOUT_MS // 2)
    world.restart()
    assert world.stored().started_timestamp_ms == started_ms
    world.pass_ms(TIMEOUT_MS // 2 + 10_000)
    assert world.state_name() == "CompleteAbort"
    assert world.end(identity).error is ErrorCode.producer_fenced


def test_the_record_of_completion_is_written_again_when_the_log_refuses_it() -> None:
    world = World()
    world.holds_markers = True
    committed(world)
    world.log.refuse_with = ErrorCode.not_enough_replicas
    world.release_markers()
    assert world.state_name() == "PrepareCommit"
    world.pass_ms(5_000)
    world.log.refuse_with = None
    world.pass_ms(1_000)
    assert world.state_name() == "CompleteCommit"
    assert len(world.markers) == 1  # the markers are in place: only the record is repeated


def test_results_that_come_late_or_twice_do_not_count_for_the_next_transaction() -> None:
    world = World()
    identity = world.open(OUT_0)
    world.holds_markers = True
    world.end(identity)
    shard, first = world.actions.popleft()
    assert isinstance(first, WriteMarkers)
    world.write(shard, first)
    assert world.state_name() == "CompleteCommit"
    # In the old protocol the next transaction looks just like this one.
    assert world.add_one(identity) is NONE
    world.end(identity)
    world.write(shard, first)
    assert world.state_name() == "PrepareCommit"
    world.release_markers()
    assert world.state_name() == "CompleteCommit"


def test_results_may_come_in_parts() -> None:
    world = World()
    world.holds_markers = True
    committed(world)
    shard, order = world.actions.popleft()
    assert isinstance(order, WriteMarkers)
    world.report(shard, order, {OUT_1: NONE})
    assert world.describe().topics[0].partitions == [0]
    world.report(shard, order, {OUT_0: NONE})
    assert world.state_name() == "CompleteCommit"


def test_a_shard_that_is_gone_hears_no_results() -> None:
    world = World()
    world.holds_markers = True
    committed(world)
    world.coordinator.shards.resign(0, 99)
    before = len(world.log.batches)
    world.release_markers()
    assert len(world.log.batches) == before


def test_keys_of_other_versions_are_skipped() -> None:
    world = World()
    world.init()
    batch = encode_batch([Record(0, 0, b"\x00\x09x", b"y")])
    world.log.append(batch, now_ms=0, timestamp_ms=0)
    world.restart()
    assert world.init().identity == (P, 1)


def test_values_of_newer_versions_are_not_guessed_at() -> None:
    world = World()
    batch = encode_batch([Record(0, 0, encode_key("t"), b"\x00\x02whatever")])
    world.log.append(batch, now_ms=0, timestamp_ms=0)
    world.restart()
    assert world.shard.status is ShardStatus.FAILED
    assert world.init().error is ErrorCode.not_coordinator


def test_a_log_is_loaded_in_parts() -> None:
    world = World()
    for number in range(20):
        world.init(f"t{number}")
    before = world.state.remembered()
    world.coordinator = world._coordinator()
    world.elect()
    assert world.init().error is ErrorCode.coordinator_load_in_progress
    world.load_all(max_bytes=200)
    assert world.state.remembered() == before


def test_a_completion_is_flushed_with_what_follows_unless_something_waits_for_it() -> None:
    world = World()
    identity = world.open(OUT_0)
    world.log.is_holding = True
    ended = world.end_later(identity)
    world.flush()
    assert ended.error is ErrorCode.none
    assert world.state_name() == "CompleteCommit"
    assert world.log.unawaited == [world.transaction().stored_until - 1]
    assert world.log.flushes_asked == 0
    described = world.ask(DescribeTransactionsRequest(transactional_ids=[T]))
    assert not described.is_answered
    assert world.log.flushes_asked == 1
