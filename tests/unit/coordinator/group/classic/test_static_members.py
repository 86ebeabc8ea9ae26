"""Members that keep their place over a restart."""

from __future__ import annotations

import pytest

from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.events import MemberFenced
from klamm.protocol.errors import ErrorCode
from unit.coordinator.asking import assignment, subscription
from unit.coordinator.driver import World

FENCED = ErrorCode.fenced_instance_id


def test_a_follower_that_restarts_keeps_its_assignment_and_nobody_rebalances() -> None:
    world = World()
    _, old_id = world.statics("a", "b")
    call = world.join(instance="b", version=9)
    new_id = call.response.member_id
    assert (call.error, call.response.generation_id) == (ErrorCode.none, 1)
    assert new_id != old_id
    assert world.phase() is Phase.STABLE
    assert world.sync(new_id, 1, instance="b").response.assignment == assignment(("t", 1))
    assert world.heartbeat(old_id, 1, instance="b") is FENCED
    assert world.sync(old_id, 1, instance="b").error is FENCED
    assert world.commit_error(member_id=old_id, generation=1, instance="b") is FENCED
    assert world.join(old_id, instance="b").error is FENCED
    unknown = ErrorCode.unknown_member_id
    assert world.heartbeat(old_id, 1) is unknown
    assert world.sync(old_id, 1).error is unknown
    assert world.commit_error(member_id=old_id, generation=1) is unknown
    assert world.join(old_id).error is unknown


def test_a_fencing_is_told_with_both_ids() -> None:
    world = World()
    (old_id,) = world.statics("a")
    new_id = world.join(instance="a", version=9).response.member_id
    (fenced,) = (event for event in world.events if isinstance(event, MemberFenced))
    assert (fenced.member_id, fenced.new_member_id) == (old_id, new_id)
    assert fenced.group_instance_id == "a"


def test_a_leader_that_restarts_leads_without_assigning() -> None:
    world = World()
    world.statics("a", "b")
    response = world.join(instance="a", version=9).response
    assert response.skip_assignment
    assert response.leader == response.member_id
    assert len(response.members) == 2


def test_an_older_leader_that_restarts_does_not_know_that_it_leads() -> None:
    world = World()
    old_id, _ = world.statics("a", "b")
    response = world.join(instance="a", version=8).response
    assert not response.skip_assignment
    assert response.leader == old_id
    assert list(response.members) == []
    assert world.live().leader_id == response.member_id


def test_a_restart_that_changes_the_vote_causes_a_rebalance() -> None:
    world = World()
    world.statics("a", "b", protocols=("range", "sticky"))
    call = world.join(instance="b", version=9, protocols=("sticky",))
    assert not call.is_answered
    assert world.phase() is Phase.PREPARING


def test_a_restart_with_another_subscription_but_the_same_vote_causes_none() -> None:
    world = World()
    world.statics("a", "b")
    call = world.join(instance="b", version=9, protocols={"range": subscription("t2")})
    assert call.error is ErrorCode.none
    assert world.phase() is Phase.STABLE


def test_a_restart_while_assignments_are_awaited_causes_a_rebalance() -> None:
    world = World()
    calls = [world.join(instance=instance, version=9) for instance in ("a", "b", "c")]
    world.pass_ms(6_000)
    waiting = world.sync(calls[1].response.member_id, 1)
    returned = world.join(instance="c", version=9)
    assert waiting.error is ErrorCode.rebalance_in_progress
    assert not returned.is_answered
    assert world.phase() is Phase.PREPARING


def test_a_restart_in_the_join_phase_fences_the_join_that_waits() -> None:
    world = World()
    calls = [world.join(instance=instance, version=9) for instance in ("a", "b")]
    newer = world.join(instance="b", version=9)
    assert calls[1].error is FENCED
    world.pass_ms(6_000)
    assert newer.error is ErrorCode.none
    assert len(world.live().members) == 2


def test_a_restart_fences_a_sync_that_waits() -> None:
    world = World()
    calls = [world.join(instance=instance, version=9) for instance in ("a", "b")]
    world.pass_ms(6_000)
    waiting = world.sync(calls[1].response.member_id, 1)
    world.join(instance="b", version=9)
    assert waiting.error is FENCED


def test_a_replacement_that_cannot_be_written_leaves_the_old_id_valid() -> None:
    world = World()
    old_id, _ = world.statics("a", "b")
    world.log.refuse_with = ErrorCode.message_too_large
    call = world.join(instance="a", version=9)
    assert call.error is ErrorCode.unknown_server_error
    assert (call.response.member_id, call.response.generation_id) == ("", 1)
    assert (call.response.protocol_type, call.response.protocol_name) == ("consumer", "range")
    assert world.heartbeat(old_id, 1, instance="a") is ErrorCode.none
    assert world.live().leader_id == old_id


def test_an_absent_follower_stays_through_the_join_phase_and_goes_at_the_sync_timer() -> None:
    world = World()
    leader_id, absent_id = world.statics("a", "b", session_ms=100_000)
    rejoined = world.join(leader_id, instance="a", session_ms=100_000)
    world.pass_ms(60_000)
    listed = [member.group_instance_id for member in rejoined.response.members]
    assert listed == ["a", "b"]
    assert world.heartbeat(absent_id, 1, instance="b") is ErrorCode.illegal_generation
    assert world.sync(leader_id, 2, {leader_id: b"x"}).error is ErrorCode.none
    world.heartbeat(leader_id, 2)
    world.pass_ms(60_000)
    assert list(world.live().members) == [leader_id]
    assert world.phase() is Phase.PREPARING


def test_when_a_static_leader_misses_the_join_phase_another_leads() -> None:
    world = World()
    _, follower_id = world.statics("a", "b", session_ms=100_000)
    rejoined = world.join(
        follower_id, instance="b", session_ms=100_000, protocols={"range": subscription("t2")}
    )
    world.pass_ms(60_000)
    assert rejoined.response.leader == follower_id
    assert len(rejoined.response.members) == 2


def test_absent_static_members_alone_keep_the_join_phase_open() -> None:
    world = World()
    first, second = world.statics("a", "b", session_ms=1_000_000)
    world.leave("nobody", ("", "a"))
    assert world.phase() is Phase.PREPARING
    assert list(world.live().members) == [second]
    world.pass_ms(180_000)
    assert world.phase() is Phase.PREPARING
    assert world.live().generation == 1
    assert world.live().join_timer.due_at_ms == world.clock.now_ms() + 60_000
    assert first not in world.live().members
    world.pass_ms(1_000_000)
    assert world.phase() is Phase.EMPTY


def test_a_static_member_may_do_everything_by_its_id_alone() -> None:
    world = World()
    (member_id,) = world.statics("a")
    assert world.heartbeat(member_id, 1) is ErrorCode.none
    assert world.sync(member_id, 1).error is ErrorCode.none
    assert world.commit_error(member_id=member_id, generation=1) is ErrorCode.none
    assert world.join(member_id).response.generation_id == 2
    assert world.leave(member_id).members[0].error_code == ErrorCode.none


@pytest.mark.parametrize("leads", [True, False])
def test_a_restarted_member_is_found_under_its_new_id_after_a_restart_of_the_broker(leads: bool) -> None:
    world = World()
    world.statics("a", "b")
    instance = "a" if leads else "b"
    new_id = world.join(instance=instance, version=9).response.member_id
    world.restart()
    assert world.heartbeat(new_id, 1, instance=instance) is ErrorCode.none
    assert (world.live().leader_id == new_id) is leads
