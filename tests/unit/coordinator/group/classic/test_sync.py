"""How assignments travel from the leader to everybody."""

from __future__ import annotations

import pytest

from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.events import RebalanceCompleted
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition
from unit.coordinator.asking import assignment
from unit.coordinator.driver import World


@pytest.mark.parametrize("leader_first", [True, False])
def test_everybody_gets_what_the_leader_gave(leader_first: bool) -> None:
    world = World()
    leader_id, follower_id = world.joined(2)
    given = {leader_id: b"one", follower_id: b"two"}
    if leader_first:
        leader, follower = world.sync(leader_id, 1, given), world.sync(follower_id, 1)
    else:
        follower = world.sync(follower_id, 1)
        assert not follower.is_answered
        leader = world.sync(leader_id, 1, given)
    assert (leader.error, leader.response.assignment) == (ErrorCode.none, b"one")
    assert (follower.error, follower.response.assignment) == (ErrorCode.none, b"two")
    assert (leader.response.protocol_type, leader.response.protocol_name) == ("consumer", "range")
    assert world.phase() is Phase.STABLE


def test_a_member_that_the_leader_forgot_gets_nothing_without_an_error() -> None:
    world = World()
    leader_id, follower_id = world.joined(2)
    world.sync(leader_id, 1, {leader_id: b"all", "stranger": b"none"})
    call = world.sync(follower_id, 1)
    assert (call.error, call.response.assignment) == (ErrorCode.none, b"")
    assert "stranger" not in world.live().members


def test_a_sync_at_a_bad_moment_is_refused() -> None:
    world = World()
    leader_id, _ = world.stable(2)
    assert world.sync(leader_id, 7).error is ErrorCode.illegal_generation
    assert world.sync("stranger", 1).error is ErrorCode.unknown_member_id
    assert world.sync("m", 1, group="nowhere").error is ErrorCode.unknown_member_id
    world.join(leader_id)
    assert world.phase() is Phase.PREPARING
    assert world.sync(leader_id, 1).error is ErrorCode.rebalance_in_progress


@pytest.mark.parametrize(
    ("version", "protocol_type", "protocol_name", "expected"),
    [
        (5, "consumer", None, ErrorCode.inconsistent_group_protocol),
        (5, None, "range", ErrorCode.inconsistent_group_protocol),
        (5, "connect", "range", ErrorCode.inconsistent_group_protocol),
        (5, "consumer", "sticky", ErrorCode.inconsistent_group_protocol),
        (5, "consumer", "range", ErrorCode.none),
        (4, None, None, ErrorCode.none),
    ],
)
def test_a_newer_client_must_name_the_protocol_and_name_it_right(
    version: int, protocol_type: str | None, protocol_name: str | None, expected: ErrorCode
) -> None:
    world = World()
    (member_id,) = world.stable(1)
    call = world.sync(member_id, 1, version=version, protocol_type=protocol_type, protocol_name=protocol_name)
    assert call.error is expected


def test_a_repeated_sync_gets_the_same_assignment_whatever_it_brings() -> None:
    world = World()
    (member_id,) = world.stable(1)
    call = world.sync(member_id, 1, {member_id: b"other"})
    assert call.response.assignment == assignment(("t", 0))


def test_when_the_leader_dies_before_it_assigns_those_who_wait_join_again() -> None:
    world = World()
    leader_id, follower_id = world.joined(2)
    waiting = world.sync(follower_id, 1)
    world.pass_ms(10_000)
    assert waiting.error is ErrorCode.rebalance_in_progress
    assert world.phase() is Phase.PREPARING
    assert leader_id not in world.live().members


def test_when_nobody_syncs_everybody_is_removed() -> None:
    world = World()
    members = world.joined(2)
    for _ in range(8):
        world.pass_ms(7_000)
        for member_id in members:
            world.heartbeat(member_id, 1)
    world.pass_ms(4_000)
    assert world.phase() is Phase.EMPTY
    assert world.live().generation == 2


def test_a_follower_that_never_syncs_is_removed_however_much_it_heartbeats() -> None:
    world = World()
    leader_id, follower_id, silent_id = world.joined(3)
    world.sync(leader_id, 1)
    world.sync(follower_id, 1)
    assert world.phase() is Phase.STABLE
    for _ in range(11):
        world.pass_ms(5_000)
        for member_id in (leader_id, follower_id, silent_id):
            assert world.heartbeat(member_id, 1) is ErrorCode.none
    world.pass_ms(5_000)
    assert list(world.live().members) == [leader_id, follower_id]
    assert world.phase() is Phase.PREPARING


def test_when_everybody_has_synced_nobody_is_removed_for_it() -> None:
    world = World()
    members = world.stable(3)
    assert world.live().sync_timer.due_at_ms is None
    for _ in range(20):
        world.pass_ms(5_000)
        assert {world.heartbeat(member_id, 1) for member_id in members} == {ErrorCode.none}


@pytest.mark.parametrize(
    ("log_error", "expected"),
    [
        (ErrorCode.not_leader_or_follower, ErrorCode.not_coordinator),
        (ErrorCode.kafka_storage_error, ErrorCode.not_coordinator),
        (ErrorCode.message_too_large, ErrorCode.unknown_server_error),
        (ErrorCode.record_list_too_large, ErrorCode.unknown_server_error),
        (ErrorCode.not_enough_replicas, ErrorCode.coordinator_not_available),
        (ErrorCode.request_timed_out, ErrorCode.coordinator_not_available),
        (ErrorCode.corrupt_message, ErrorCode.corrupt_message),
    ],
)
def test_an_assignment_that_cannot_be_written_is_an_error_for_all_who_wait(
    log_error: ErrorCode, expected: ErrorCode
) -> None:
    world = World()
    leader_id, follower_id = world.joined(2)
    follower = world.sync(follower_id, 1)
    world.log.refuse_with = log_error
    leader = world.sync(leader_id, 1)
    assert leader.error is follower.error is expected
    assert world.phase() is Phase.PREPARING


def test_a_newcomer_while_the_assignment_is_written_keeps_it_from_being_sent() -> None:
    world = World()
    leader_id, follower_id = world.joined(2)
    world.log.is_holding = True
    leader, follower = world.sync(leader_id, 1, {leader_id: b"x"}), world.sync(follower_id, 1)
    assert not leader.is_answered
    world.join()
    world.flush()
    assert leader.error is follower.error is ErrorCode.rebalance_in_progress
    assert world.phase() is Phase.PREPARING


def test_assignments_are_sent_when_the_disk_has_them_and_not_before() -> None:
    world = World()
    (member_id,) = world.joined(1)
    world.log.is_holding = True
    call = world.sync(member_id, 1, {member_id: b"x"})
    assert not call.is_answered
    assert world.phase() is Phase.COMPLETING
    world.flush()
    assert call.response.assignment == b"x"
    assert world.phase() is Phase.STABLE


def test_a_sync_that_is_repeated_while_it_waits_ends_the_older_one_without_data() -> None:
    world = World()
    _, follower_id = world.joined(2)
    older = world.sync(follower_id, 1)
    newer = world.sync(follower_id, 1)
    assert older.error is ErrorCode.rebalance_in_progress
    assert not newer.is_answered


def test_a_completed_rebalance_tells_its_cause_its_phases_and_what_moved() -> None:
    world = World()
    (first_id,) = world.stable(1, client_id="first")
    newcomer = world.join(client_id="second")
    world.pass_ms(500)
    world.join(first_id)
    world.pass_ms(200)
    second_id = newcomer.response.member_id
    given = {first_id: assignment(("t", 1)), second_id: assignment(("t", 0))}
    world.sync(second_id, 2)
    world.sync(first_id, 2, given)
    event = world.events[-1]
    assert isinstance(event, RebalanceCompleted)
    assert (event.cause, event.member_id) == ("a member joined", second_id)
    assert (event.client_id, event.client_host) == ("second", "/127.0.0.1")
    assert (event.generation_before, event.generation_after) == (1, 2)
    assert (event.join_phase_ms, event.sync_phase_ms, event.member_count) == (500, 200, 2)
    assert event.moved() == (TopicPartition("t", 0), TopicPartition("t", 1))
