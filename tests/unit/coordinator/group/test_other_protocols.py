"""A group whose members use another protocol: the classic requests are refused, and change nothing."""

from __future__ import annotations

import pytest

from klamm.coordinator.group.classic.membership import Member
from klamm.coordinator.group.classic.signals import (
    AssignmentDurable,
    AssignmentRefused,
    EmptyingRefused,
    JoinCheck,
    JoinTimeUp,
    OverCapacity,
    ReplacementRefused,
    SyncTimeUp,
)
from klamm.coordinator.group.membership import NoMembers
from klamm.coordinator.group.notes import GroupOpened
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.join_group import JoinGroupResponse
from klamm.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from klamm.protocol.messages.sync_group import SyncGroupResponse
from unit.coordinator.driver import World

UNKNOWN = ErrorCode.unknown_member_id


class OtherMembers(NoMembers):
    """Members in a protocol that is not the classic one."""

    def group_delete_error(self) -> ErrorCode:
        return ErrorCode.non_empty_group


@pytest.fixture
def world() -> World:
    world = World()
    world.shard.machine.apply(GroupOpened("g", OtherMembers()))
    return world


def test_a_classic_member_cannot_join(world: World) -> None:
    members = world.group().membership
    assert world.join().error is ErrorCode.inconsistent_group_protocol
    assert world.join(version=4).error is ErrorCode.inconsistent_group_protocol
    assert world.join(instance="a", version=9).error is ErrorCode.inconsistent_group_protocol
    assert world.group().membership is members


def test_its_members_are_not_classic_ones(world: World) -> None:
    assert world.join("m").error is ErrorCode.inconsistent_group_protocol
    assert world.heartbeat("m", 1) is UNKNOWN
    assert world.sync("m", 1).error is UNKNOWN
    (left,) = world.ask(LeaveGroupRequest(group_id="g", members=[MemberIdentity("m")])).response.members
    assert left.error_code == UNKNOWN


def test_it_is_described_as_no_classic_group(world: World) -> None:
    described = world.describe(version=6)
    assert (described.error_code, described.group_state) == (ErrorCode.group_id_not_found, "Dead")
    assert described.error_message == "Group g is not a classic group."
    assert world.describe(version=5).error_code == 0


@pytest.mark.parametrize(
    "signal",
    [
        Member("g", "m"),
        JoinTimeUp("g"),
        SyncTimeUp("g"),
        JoinCheck("g"),
        OverCapacity("g"),
        AssignmentDurable("g", 1, {}),
    ],
    ids=lambda signal: type(signal).__name__,
)
def test_what_comes_late_from_a_classic_group_decides_nothing(world: World, signal: object) -> None:
    outcome = world.shard.machine.decide(signal, world.context())
    assert not any((outcome.records, outcome.notes, outcome.replies, outcome.timers, outcome.then))


def test_the_requests_behind_what_comes_late_are_answered(world: World) -> None:
    error = ErrorCode.kafka_storage_error
    token = object()
    context = world.context(token)
    replies = ((token, "left"),)
    for with_replies in (EmptyingRefused("g", replies, error), JoinCheck("g", replies)):
        assert world.shard.machine.decide(with_replies, context).replies == replies
    for refused in (AssignmentRefused("g", 1, error), ReplacementRefused("g", error)):
        outcome = world.shard.machine.decide(refused, context)
        ((answered, response),) = outcome.replies
        assert answered is token
        assert isinstance(response, SyncGroupResponse | JoinGroupResponse)
        assert response.error_code == ErrorCode.not_coordinator
        assert not outcome.notes
