"""A crash, or another coordinator, in the middle of moving over: the log says how it goes on."""

from __future__ import annotations

import pytest

from klamm.coordinator.group.classic.phases import Phase
from klamm.protocol.errors import ErrorCode
from unit.coordinator.group.consumer.names import ALL
from unit.coordinator.group.mixed.driver import CLASSIC_SESSION_MS, MixedWorld

OK = ErrorCode.none
REJOIN = ErrorCode.rebalance_in_progress


@pytest.fixture
def world() -> MixedWorld:
    world = MixedWorld()
    world.classics("t-0 t-1 t-2", "t-3 t-4 t-5")
    world.beat("C", 0)
    return world


def test_a_mixed_group_is_as_it_was(world: MixedWorld) -> None:
    # scenario 74 of consumer groups
    _, a, b = sorted(world.members().memory.members)
    world.rejoin(a, "t-0 t-1 t-2")
    before = world.state.remembered()
    world.restart()
    assert world.state.remembered() == before
    assert world.fetched(a, 1) == "t-0 t-1"
    assert world.heartbeat(b, 1) is REJOIN
    assert world.beat("C", 2).got is None
    assert world.rejoin(a, "t-0 t-1").response.generation_id == 2
    assert world.beat("C", 2).got == "t-2"


def test_sessions_run_from_now_each_by_its_own_timeout(world: MixedWorld) -> None:
    # scenario 74 of consumer groups
    world.pass_ms(CLASSIC_SESSION_MS - 1)
    world.restart()
    world.pass_ms(CLASSIC_SESSION_MS - 1)
    assert world.members().member_count == 3
    world.pass_ms(1)
    assert list(world.members().memory.members) == ["C"]


def test_a_change_over_that_was_not_durable_has_not_happened() -> None:
    world = MixedWorld()
    (a,) = world.classics(ALL)
    world.log.is_holding = True
    beat = world.beat("C", 0)
    assert not beat.call.is_answered
    world.log.is_holding = False
    world.fail_flush()
    world.load_all()
    assert beat.error is ErrorCode.not_coordinator
    assert world.phase() is Phase.STABLE
    assert world.heartbeat(a, 1) is OK


def test_a_way_back_that_was_interrupted_goes_on_with_the_rebalance() -> None:
    # The record has what members should have. Without a rebalance nobody would read what they do not have.
    world = MixedWorld()
    (a,) = world.classics(ALL)
    world.beat("C", 0)
    world.beat("C", -1)
    assert world.phase() is Phase.PREPARING
    world.restart()
    assert world.phase() is Phase.PREPARING
    assert world.heartbeat(a, 2) is REJOIN
    joined = world.rejoin(a)
    assert joined.response.generation_id == 3
    assert joined.response.leader == a


def test_a_way_back_without_a_rebalance_is_over_when_it_is_durable() -> None:
    world = MixedWorld()
    (a,) = world.classics("t-0 t-1 t-2")
    world.beat("C", 0, instance="i")
    world.follow(a, "t-0 t-1 t-2")
    joined = world.rejoin(instance="i").response
    world.restart()
    assert world.phase() is Phase.STABLE
    assert world.heartbeat(a, 2) is OK
    assert world.heartbeat(joined.member_id, 2, instance="i") is OK
