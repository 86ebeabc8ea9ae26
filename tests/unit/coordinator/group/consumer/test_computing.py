"""Targets that are computed outside the shard: large groups, and assignors of users."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from klamm.assignors.server import compute_target
from klamm.coordinator.group.consumer.computing import (
    MOST_PAUSE_MS,
    PATIENCE_MS,
    RETRY_MS,
    SOON_MS,
    SOON_PER_MS,
)
from klamm.coordinator.group.consumer.remembered import MemberValue
from klamm.coordinator.group.consumer.signals import ComputeTarget, TargetFound
from klamm.coordinator.group.events import AssignorFailed, GroupEpochBumped
from klamm.groups.story import story_entries
from klamm.protocol.errors import ErrorCode
from unit.coordinator.group.consumer.driver import SESSION_MS, Beat, GroupWorld
from unit.coordinator.group.consumer.names import ALL
from unit.coordinator.group.consumer.user_assignors import CONFIG


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld(CONFIG)


def interval_ms(beat: Beat) -> int:
    told: int = beat.call.response.heartbeat_interval_ms
    return told


def failures(world: GroupWorld) -> list[str]:
    return [event.reason for event in world.events if isinstance(event, AssignorFailed)]


def test_the_first_member_gets_an_epoch_at_once_and_its_partitions_when_they_are_computed(
    world: GroupWorld,
) -> None:
    joined = world.beat("A", 0, assignor="first")
    assert (joined.epoch, joined.got, interval_ms(joined)) == (1, "", SOON_MS)
    assert world.epochs_of() == (2, 1)
    world.pass_ms(1)
    assert world.epochs_of() == (2, 2)
    beat = world.beat("A", 1)
    assert (beat.epoch, beat.got, interval_ms(beat)) == (2, ALL, 5_000)


def test_a_large_group_is_computed_outside_and_a_small_one_at_once(world: GroupWorld) -> None:
    world.topics.create("large", 3_000)
    assert world.beat("A", 0, topics="large").got == ""
    world.pass_ms(1)
    assert len((world.beat("A", 1).got or "").split()) == 3_000
    assert world.beat("B", 0, group="small", topics="t").got == ALL


def test_while_a_target_is_computed_the_group_goes_on_with_the_last_one(world: GroupWorld) -> None:
    world.beat("A", 0, assignor="first")
    world.pass_ms(1)
    world.beat("A", 1)
    world.beat("B", 0)
    assert world.state_of() == "Assigning"
    assert world.beat("A", 2).got is None
    assert len(world.outside) == 1
    world.pass_ms(1)
    assert world.state_of() == "Reconciling"
    world.settle(["A", "B"])
    assert world.assigned("A") == ALL


def test_a_target_for_a_group_that_has_changed_is_dropped_and_computed_again(world: GroupWorld) -> None:
    world.beat("A", 0, assignor="first")
    world.beat("B", 0, assignor="first")
    assert len(world.outside) == 1
    world.pass_ms(1)
    assert world.epochs_of() == (3, 1)
    world.beat("A", 1)
    world.pass_ms(1)
    assert world.epochs_of() == (3, 3)


def finish(world: GroupWorld) -> None:
    """What is being computed is ready now."""
    ((_, asked),) = world.outside
    world.outside.clear()
    assert isinstance(asked, ComputeTarget)
    world.shard.signal(TargetFound(asked, compute_target(asked.assignor, asked.group)), world.context())


def test_a_target_for_a_group_that_has_changed_counts_if_its_members_have_waited_long(
    world: GroupWorld,
) -> None:
    world.beat("A", 0, assignor="first")
    world.beat("B", 0, assignor="first")
    world.clock.advance(PATIENCE_MS)
    finish(world)
    assert world.epochs_of() == (3, 2)
    assert world.state_of() == "Assigning"
    assert (world.beat("A", 1).got, world.beat("B", 1).got) == (ALL, None)
    assert world.beat("C", 0, assignor="first").got == ""
    assert world.current("C").epoch == 2


def test_an_assignor_slower_than_the_changes_of_its_group_moves_it_on(world: GroupWorld) -> None:
    names = [f"m{number:02}" for number in range(12)]
    targets = []
    for name in names:  # one joins while a target is computed, each time
        world.beat(name, 0, assignor="first")
        world.clock.advance(PATIENCE_MS // 2)
        if len(world.outside) == 1 and names.index(name) % 2:
            finish(world)
        targets.append(world.epochs_of()[1])
    assert sorted(targets) == targets
    assert len(set(targets)) > len(names) // 4


def test_members_that_have_gone_meanwhile_get_nothing_of_an_older_target(world: GroupWorld) -> None:
    world.beat("A", 0, assignor="first")
    world.beat("B", 0, assignor="first")
    world.beat("A", -1)
    world.clock.advance(PATIENCE_MS)
    finish(world)
    assert world.epochs_of() == (4, 2)
    assert world.members().memory.targets == {}
    world.beat("B", 1)
    finish(world)
    assert world.beat("B", 2).got == ALL


def test_a_target_never_falls_behind_that_of_a_group_that_was_empty_meanwhile(world: GroupWorld) -> None:
    world.beat("A", 0, assignor="first")
    world.beat("A", -1)
    assert world.epochs_of() == (3, 3)
    world.beat("A", 0, assignor="first")
    world.clock.advance(PATIENCE_MS)
    finish(world)
    assert world.epochs_of() == (4, 3)
    world.clock.advance(MOST_PAUSE_MS)
    world.beat("A", 3)
    finish(world)
    assert world.beat("A", 3).got == ALL


def test_a_static_member_that_returns_meanwhile_gets_what_was_computed_for_it(world: GroupWorld) -> None:
    world.beat("A", 0, assignor="first", instance="a")
    world.beat("A", -2, instance="a")
    world.beat("A2", 0, assignor="first", instance="a")
    world.pass_ms(1)  # the target of A, which has another id now
    assert world.beat("A2", 1, instance="a").got == ALL


def test_after_one_in_vain_the_next_computation_waits_a_multiple_of_its_time(world: GroupWorld) -> None:
    world.beat("A", 0, assignor="first")
    world.beat("B", 0)
    world.clock.advance(10)
    finish(world)
    joined = world.beat("C", 0)
    assert (world.outside, interval_ms(joined)) == ([], SOON_MS)
    world.clock.advance(39)
    world.beat("C", 1)
    assert world.outside == []
    world.clock.advance(1)
    world.beat("C", 1)
    assert len(world.outside) == 1
    world.beat("D", 0)
    world.clock.advance(PATIENCE_MS - 51)
    finish(world)
    world.clock.advance(MOST_PAUSE_MS)
    world.beat("D", 1)
    assert len(world.outside) == 1


def test_members_that_keep_alive_meanwhile_are_told_to_come_back_soon(world: GroupWorld) -> None:
    world.beat("A", 0)
    world.beat("B", 0, assignor="first")
    world.pass_ms(1)
    world.settle(["A", "B"])
    world.beat("C", 0)
    written = world.log.end_offset
    world.clock.advance(SESSION_MS - 1)
    beat = world.beat("B", world.current("B").epoch)
    assert (beat.got, interval_ms(beat)) == (None, SOON_MS)
    assert world.log.end_offset == written
    world.jump_ms(SESSION_MS - 1)
    assert world.members().memory.members.keys() == {"B"}


def test_members_of_a_large_group_come_back_in_turn(world: GroupWorld) -> None:
    told = []
    for number in range(2_000):
        told.append(interval_ms(world.beat(f"m{number}", 0, topics="u", assignor="first")))
    assert told[0] == SOON_MS
    assert told[-1] == 1_999 // SOON_PER_MS


class Unlisted(dict[str, MemberValue]):
    """Members that can be looked up, not gone through."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("each of the members is looked at")

    keys = values = items = __iter__  # type: ignore[assignment]


def test_a_join_looks_at_no_other_member_while_a_target_is_computed(world: GroupWorld) -> None:
    world.beat("A", 0, assignor="first", regex="t.*")
    world.beat("B", 0)
    memory = world.members().memory
    memory.members = Unlisted(memory.members)
    assert world.beat("C", 0).got == ""
    assert world.beat("D", 0, regex="u").got == ""
    bump = [event for event in world.events if isinstance(event, GroupEpochBumped)][-1]
    assert bump.member_count == 3


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("raises", "assignor raises raised KeyError: 'weight'"),
        ("rubbish", "assignor rubbish gave t-0 away twice, the second time to B"),
    ],
)
def test_a_group_whose_assignor_fails_keeps_its_last_target_and_says_why(
    world: GroupWorld, name: str, reason: str
) -> None:
    world.beat("A", 0)
    world.beat("B", 0, assignor=name)
    world.pass_ms(1)
    assert world.epochs_of() == (2, 1)
    assert world.beat("A", 1).epoch == 1
    assert world.assigned("A") == ALL
    assert failures(world) == [reason]
    (*_, told) = story_entries([event.as_json() for event in world.events])
    assert told.text.startswith(f"There is no target for epoch 2: {reason}. The group keeps its last one")


def test_a_failed_assignor_is_asked_again_after_a_while_or_when_the_group_changes(world: GroupWorld) -> None:
    world.beat("A", 0, assignor="raises")
    world.pass_ms(1)
    for _ in range(4):
        world.beat("A", 1)
        world.pass_ms(RETRY_MS // 4)
    assert len(failures(world)) == 1
    world.beat("A", 1)
    world.pass_ms(1)
    assert len(failures(world)) == 2
    world.beat("A", 1, topics="u", assignor="uniform")
    assert world.beat("A", world.current("A").epoch).got is None
    assert world.assigned("A") == "u-0 u-1 u-2"


def test_a_join_is_not_recorded_if_the_assignor_raises_at_once(world: GroupWorld) -> None:
    # scenario 26 of consumer groups
    beat = world.beat("A", 0, assignor="raises-at-once")
    assert (beat.error, beat.message) == (
        ErrorCode.unknown_server_error,
        "assignor raises-at-once raised KeyError: 'weight'",
    )
    assert not world.state.groups
    assert world.log.end_offset == 0


def test_a_target_that_the_log_refuses_is_computed_again(world: GroupWorld) -> None:
    world.beat("A", 0, assignor="first")
    world.log.refuse_with = ErrorCode.kafka_storage_error
    world.pass_ms(1)
    world.log.refuse_with = None
    assert world.epochs_of() == (2, 1)
    world.beat("A", 1)
    world.pass_ms(1)
    assert world.beat("A", 1).got == ALL


def test_a_restart_drops_what_is_computed_and_the_next_heartbeat_begins_again(world: GroupWorld) -> None:
    world.beat("A", 0, assignor="first")
    ((_, asked),) = world.outside
    world.outside.clear()
    world.restart()
    assert isinstance(asked, ComputeTarget)
    world.shard.signal(TargetFound(asked, {"A": {}}), world.context())
    assert world.epochs_of() == (2, 1)
    world.beat("A", 1)
    world.pass_ms(1)
    assert world.beat("A", 1).got == ALL
