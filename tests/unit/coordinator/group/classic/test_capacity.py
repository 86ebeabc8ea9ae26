"""Groups that may not grow for ever."""

from __future__ import annotations

from collections import Counter

from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.config import GroupConfig
from klamm.protocol.errors import ErrorCode
from unit.coordinator.driver import World

FULL = ErrorCode.group_max_size_reached
TEN = GroupConfig(group_max_size=10)


def test_the_eleventh_joiner_of_a_new_group_of_ten_is_turned_away() -> None:
    world = World(TEN)
    calls = [world.join() for _ in range(11)]
    world.pass_ms(6_000)
    assert Counter(call.error for call in calls) == {ErrorCode.none: 10, FULL: 1}
    assert calls[-1].response.member_id == ""


def test_ids_may_be_handed_out_beyond_the_limit_but_not_used() -> None:
    world = World(TEN)
    ids = [world.join(version=4).response.member_id for _ in range(11)]
    calls = [world.join(member_id) for member_id in ids]
    world.pass_ms(6_000)
    assert [call.error for call in calls] == [ErrorCode.none] * 10 + [FULL]
    assert world.phase() is Phase.COMPLETING
    assert [world.join(member_id).error for member_id in ids] == [ErrorCode.none] * 10 + [
        ErrorCode.group_max_size_reached
    ]


def test_of_a_group_that_is_too_large_the_last_to_rejoin_are_dropped() -> None:
    world = World()
    members = world.stable(12)
    world.config = TEN
    world.restart()
    assert world.phase() is Phase.PREPARING
    calls = [world.join(member_id) for member_id in members]
    assert [call.error for call in calls] == [ErrorCode.none] * 10 + [FULL] * 2
    assert list(world.live().members) == members[:10]
    assert world.heartbeat(members[11], 2) is ErrorCode.unknown_member_id


def test_a_group_that_is_loaded_too_large_rebalances_at_once() -> None:
    world = World()
    world.stable(12)
    world.config = TEN
    world.restart()
    assert world.phase() is Phase.PREPARING
    assert len(world.live().members) == 12


def test_a_full_group_still_takes_its_own_members_back() -> None:
    world = World(TEN)
    members = world.stable(10)
    assert world.join().error is FULL
    assert world.phase() is Phase.STABLE
    calls = [world.join(member_id) for member_id in members]
    assert {call.error for call in calls} == {ErrorCode.none}
    assert world.live().generation == 2
