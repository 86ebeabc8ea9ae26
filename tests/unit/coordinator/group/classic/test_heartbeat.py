"""Members that are alive, and members that are not."""

from __future__ import annotations

from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.events import MemberRemoved
from klamm.protocol.errors import ErrorCode
from unit.coordinator.driver import World


def test_a_heartbeat_is_answered_by_phase() -> None:
    world = World()
    assert world.heartbeat("m", 1) is ErrorCode.unknown_member_id
    leader_id, follower_id = world.joined(2)
    assert world.heartbeat(leader_id, 1) is ErrorCode.none  # assignments are awaited
    world.settle([leader_id, follower_id])
    assert world.heartbeat(leader_id, 1) is ErrorCode.none
    assert world.heartbeat(leader_id, 2) is ErrorCode.illegal_generation
    assert world.heartbeat("stranger", 1) is ErrorCode.unknown_member_id
    world.join(leader_id)
    assert world.heartbeat(follower_id, 1) is ErrorCode.rebalance_in_progress
    world.leave(leader_id, follower_id)
    assert world.phase() is Phase.EMPTY
    assert world.heartbeat(leader_id, 1) is ErrorCode.unknown_member_id


def test_a_silent_member_is_removed_and_the_others_must_rejoin() -> None:
    world = World()
    silent_id, other_id = world.stable(2)
    world.pass_ms(9_000)
    world.heartbeat(other_id, 1)
    world.pass_ms(1_000)
    assert world.heartbeat(silent_id, 1) is ErrorCode.unknown_member_id
    assert world.heartbeat(other_id, 1) is ErrorCode.rebalance_in_progress
    removed = [event for event in world.events if isinstance(event, MemberRemoved)]
    assert [(event.member_id, event.client_host) for event in removed] == [(silent_id, "/127.0.0.1")]


def test_heartbeats_and_commits_keep_a_session_alive() -> None:
    world = World()
    beating_id, committing_id = world.stable(2)
    for _ in range(5):
        world.pass_ms(9_000)
        assert world.heartbeat(beating_id, 1) is ErrorCode.none
        assert world.commit_error(member_id=committing_id, generation=1) is ErrorCode.none
    assert world.phase() is Phase.STABLE


def test_a_commit_of_which_nothing_can_be_kept_tells_of_its_member_all_the_same() -> None:
    world = World()
    (member_id,) = world.stable(1)
    for _ in range(5):
        world.pass_ms(9_000)
        error = world.commit_error(offsets={("t", 0): (1, "x" * 4097)}, member_id=member_id, generation=1)
        assert error is ErrorCode.offset_metadata_too_large
    for _ in range(5):  # nor does Kafka hear of one that asks for nothing
        world.commit({}, member_id=member_id, generation=1)
        world.pass_ms(9_000)
    assert world.heartbeat(member_id, 1) is ErrorCode.unknown_member_id


def test_a_member_that_waits_in_a_join_is_not_removed_by_its_session() -> None:
    world = World()
    waiting_id, slow_id = world.stable(2)
    call = world.join(waiting_id)
    for _ in range(5):
        world.pass_ms(9_000)
        world.heartbeat(slow_id, 1)
    assert waiting_id in world.live().members
    assert not call.is_answered


def test_a_member_that_only_heartbeats_is_dropped_when_the_join_phase_ends() -> None:
    world = World()
    leader_id, lazy_id = world.stable(2)
    world.join(leader_id)
    for _ in range(10):
        world.pass_ms(6_000)
        world.heartbeat(lazy_id, 1)
    assert list(world.live().members) == [leader_id]
    assert world.phase() is Phase.COMPLETING
