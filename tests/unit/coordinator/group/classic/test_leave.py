"""Members that go."""

from __future__ import annotations

import pytest

from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.events import GroupEmptied, GroupEventCause, MemberRemoved, RebalanceStarted
from klamm.coordinator.group.remembered import GroupRegistered
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from unit.coordinator.driver import World


def test_when_the_last_member_leaves_the_group_is_empty_and_that_is_written() -> None:
    world = World()
    (member_id,) = world.stable(1)
    response = world.leave(member_id)
    assert response.error_code == ErrorCode.none
    assert [answer.error_code for answer in response.members] == [ErrorCode.none]
    assert world.phase() is Phase.EMPTY
    assert world.live().generation == 2
    written = world.log.decoded()[-1]
    assert written == GroupRegistered("g", "consumer", 2, None, None, world.clock.timestamp_ms(), ())


def test_the_last_to_leave_hears_of_it_when_the_disk_knows() -> None:
    world = World()
    (member_id,) = world.stable(1)
    world.log.is_holding = True
    leaving = world.leave_later(member_id)
    assert not leaving.is_answered
    world.flush()
    assert leaving.response.members[0].error_code == ErrorCode.none
    world.restart()
    assert world.phase() is Phase.EMPTY


def test_who_leaves_others_behind_waits_for_no_disk() -> None:
    world = World()
    leader_id, follower_id = world.stable(2)
    world.log.is_holding = True
    assert world.leave(follower_id).members[0].error_code == ErrorCode.none
    assert list(world.live().members) == [leader_id]


def test_an_empty_group_tells_of_the_last_that_left_not_of_who_began_the_rebalance() -> None:
    world = World()
    first_id, last_id = world.stable(2)
    assert world.leave(first_id).error_code == ErrorCode.none
    assert world.leave(last_id).error_code == ErrorCode.none
    emptied = world.events[-1]
    assert isinstance(emptied, GroupEmptied)
    assert (emptied.cause, emptied.member_id) == (GroupEventCause.MEMBER_LEFT, last_id)


def test_a_leaver_that_is_unknown_is_told_so_where_its_version_looks() -> None:
    world = World()
    world.stable(1)
    old = world.leave("stranger", version=2)
    assert (old.error_code, list(old.members)) == (ErrorCode.unknown_member_id, [])
    new = world.leave("stranger", version=3)
    assert new.error_code == ErrorCode.none
    assert [answer.error_code for answer in new.members] == [ErrorCode.unknown_member_id]


def test_several_leave_at_once_each_with_its_own_result_and_one_rebalance() -> None:
    world = World()
    (known_id, fenced_id, staying_id) = world.statics("a", "b", "c")
    before = sum(isinstance(event, RebalanceStarted) for event in world.events)
    response = world.leave(("", "a"), (f"wrong-{fenced_id}", "b"), ("stranger", None))
    assert [answer.error_code for answer in response.members] == [
        ErrorCode.none,
        ErrorCode.fenced_instance_id,
        ErrorCode.unknown_member_id,
    ]
    assert [(answer.member_id, answer.group_instance_id) for answer in response.members] == [
        ("", "a"),
        (f"wrong-{fenced_id}", "b"),
        ("stranger", None),
    ]
    assert list(world.live().members) == [fenced_id, staying_id]
    assert known_id not in world.live().members
    assert sum(isinstance(event, RebalanceStarted) for event in world.events) == before + 1


def test_nobody_leaves_twice_in_one_request() -> None:
    world = World()
    first_id, _ = world.statics("a", "b")
    pending_id = world.join(version=4).response.member_id
    response = world.leave(first_id, first_id, ("", "a"), pending_id, pending_id, ("", None))
    unknown = ErrorCode.unknown_member_id
    assert [answer.error_code for answer in response.members] == [0, unknown, unknown, 0, unknown, unknown]


def test_an_id_that_went_before_is_fenced_by_the_instance_of_another_member() -> None:
    world = World()
    first_id, second_id = world.statics("a", "b")
    response = world.leave(first_id, (first_id, "b"), (first_id, "a"), (second_id, "a"), (second_id, "b"))
    fenced, unknown = ErrorCode.fenced_instance_id, ErrorCode.unknown_member_id
    assert [answer.error_code for answer in response.members] == [0, fenced, unknown, unknown, 0]


@pytest.mark.parametrize("is_stable", [True, False])
def test_an_id_that_is_given_back_makes_a_working_group_rebalance(is_stable: bool) -> None:
    world = World()
    (member_id,) = world.stable(1) if is_stable else world.joined(1)
    pending_id = world.join(version=4).response.member_id
    assert world.leave(pending_id).members[0].error_code == ErrorCode.none
    assert world.phase() is Phase.PREPARING
    assert world.heartbeat(member_id, 1) is ErrorCode.rebalance_in_progress
    started = [event for event in world.events if isinstance(event, RebalanceStarted)][-1]
    assert (started.cause, started.member_id) == (GroupEventCause.MEMBER_LEFT, pending_id)
    assert world.join(member_id).response.generation_id == 2


def test_an_id_that_is_given_back_leaves_an_empty_group_empty() -> None:
    world = World()
    world.commit()
    pending_id = world.join(version=4).response.member_id
    world.leave(pending_id)
    assert world.phase() is Phase.EMPTY


def test_an_id_that_was_only_handed_out_may_be_given_back() -> None:
    world = World()
    member_id = world.join(version=4).response.member_id
    assert world.leave(member_id).members[0].error_code == ErrorCode.none
    assert world.live().pending == {}
    assert world.join(member_id).error is ErrorCode.unknown_member_id


def test_leaving_a_group_that_is_not_there_is_an_error_of_the_member() -> None:
    world = World()
    response = world.leave("m", group="nowhere", version=3)
    assert response.error_code == ErrorCode.none
    assert [answer.error_code for answer in response.members] == [ErrorCode.unknown_member_id]
    assert world.leave("m", group="nowhere", version=1).error_code == ErrorCode.unknown_member_id


def test_a_leaver_that_waits_in_a_join_or_a_sync_gets_its_answer() -> None:
    world = World()
    leader_id, follower_id = world.joined(2)
    syncing = world.sync(follower_id, 1)
    world.leave(follower_id)
    assert syncing.error is ErrorCode.unknown_member_id
    other = world.join()
    world.leave(next(member for member in world.live().members if member != leader_id))
    assert other.error is ErrorCode.unknown_member_id
    assert other.response.member_id == ""


def test_a_leaver_may_say_why_and_it_is_told() -> None:
    world = World()
    (member_id,) = world.stable(1)
    world.ask(LeaveGroupRequest("g", [MemberIdentity(member_id, None, "the consumer is being closed")]))
    (removed,) = (event for event in world.events if isinstance(event, MemberRemoved))
    assert removed.reason == "the consumer is being closed"


def test_an_empty_group_that_cannot_be_written_is_empty_all_the_same() -> None:
    world = World()
    (member_id,) = world.stable(1)
    world.log.refuse_with = ErrorCode.kafka_storage_error
    assert world.leave(member_id).members[0].error_code == ErrorCode.none
    assert world.phase() is Phase.EMPTY
    assert world.live().generation == 2


def test_an_instance_that_went_in_the_same_request_is_unknown_to_who_comes_after() -> None:
    world = World()
    world.statics("a", "b")
    response = world.leave(("", "a"), ("another", "a"))
    assert [answer.error_code for answer in response.members] == [
        ErrorCode.none,
        ErrorCode.unknown_member_id,
    ]


def test_an_id_that_was_only_handed_out_may_be_given_back_under_any_instance() -> None:
    world = World()
    pending_id = world.join(version=4).response.member_id
    response = world.leave((pending_id, "a"))
    assert [answer.error_code for answer in response.members] == [ErrorCode.none]
    assert not world.live().pending


def test_whoever_names_no_instance_is_not_the_member_whose_instance_has_an_empty_name() -> None:
    world = World()
    (member_id,) = world.statics("")
    assert world.leave(("", None)).members[0].error_code == ErrorCode.unknown_member_id
    assert world.leave("", version=2).error_code == ErrorCode.unknown_member_id
    assert list(world.live().members) == [member_id]
    assert world.leave(("", "")).members[0].error_code == ErrorCode.none
