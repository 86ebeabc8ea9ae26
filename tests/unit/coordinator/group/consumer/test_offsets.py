"""Offsets of a consumer group: who may commit, fetch and delete them, and when they expire."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from unit.coordinator.asking import at_version, commit_errors
from unit.coordinator.group.consumer.driver import GroupWorld

HOUR_MS = 3_600_000
OK = ErrorCode.none


@pytest.fixture
def world() -> GroupWorld:
    """A is at epoch 2 with the partitions it kept, B has the others."""
    world = GroupWorld()
    world.beat("A", 0)
    world.beat("B", 0)
    world.settle(["A", "B"])
    return world


def commit(
    world: GroupWorld, member_id: str, epoch: int, *names: str, version: int = 9
) -> dict[str, ErrorCode]:
    partitions = {(name.split("-")[0], int(name.split("-")[1])): 5 for name in names}
    call = world.commit(partitions, member_id=member_id, generation=epoch, version=version)
    return {f"{topic}-{number}": error for (topic, number), error in commit_errors(call).items()}


def committed(world: GroupWorld, name: str) -> int:
    place = (name.split("-", maxsplit=1)[0], int(name.split("-")[1]))
    return world.fetch(place)[place][0]


def fetch(world: GroupWorld, member_id: str | None, epoch: int) -> Any:
    asked = OffsetFetchRequestGroup(
        "g", member_id, epoch, [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    )
    call = world.ask(at_version(OffsetFetchRequest(groups=[asked]), 9))
    (answer,) = call.response.groups
    return ErrorCode(answer.error_code)


def test_a_commit_needs_the_members_epoch(world: GroupWorld) -> None:
    # scenario 56 of consumer groups
    assert commit(world, "A", 2, "t-0") == {"t-0": OK}
    assert commit(world, "A", 3, "t-0") == {"t-0": ErrorCode.stale_member_epoch}
    assert commit(world, "C", 2, "t-0") == {"t-0": ErrorCode.unknown_member_id}
    assert commit(world, "", -1, "t-0") == {"t-0": ErrorCode.unknown_member_id}
    assert commit(world, "A", 2, "t-0", version=8) == {"t-0": ErrorCode.unsupported_version}


def test_an_earlier_epoch_commits_what_was_held_since_then(world: GroupWorld) -> None:
    # scenarios 57, 58 of consumer groups
    kept, moved = world.assigned("A").split(), world.assigned("B").split()
    assert commit(world, "A", 1, kept[0], moved[0]) == {
        kept[0]: OK,
        moved[0]: ErrorCode.stale_member_epoch,
    }
    assert committed(world, kept[0]) == 5
    assert committed(world, moved[0]) == -1
    assert commit(world, "B", 1, moved[0]) == {moved[0]: ErrorCode.stale_member_epoch}


def test_what_is_being_given_up_may_still_be_committed(world: GroupWorld) -> None:
    world.beat("C", 0)
    epoch = world.current("A").epoch
    world.beat("A", epoch)
    pending = world.pending("A").split()[0]
    assert commit(world, "A", epoch, pending) == {pending: OK}


def test_a_commit_without_a_member_needs_an_empty_group(world: GroupWorld) -> None:
    # scenario 59 of consumer groups
    world.beat("A", -1)
    world.beat("B", -1)
    assert commit(world, "", -1, "t-0") == {"t-0": OK}


def test_a_transaction_commits_with_the_members_epoch_or_without_a_member(world: GroupWorld) -> None:
    # scenario 60 of consumer groups
    def errors(**arguments: Any) -> set[ErrorCode]:
        return set(commit_errors(world.txn_commit({("t", 0): 5}, **arguments)).values())

    assert errors(member_id="A", generation=2) == {OK}
    assert errors(member_id="A", generation=9) == {ErrorCode.illegal_generation}
    assert errors() == {OK}


def test_a_fetch_needs_the_members_epoch_if_it_names_one(world: GroupWorld) -> None:
    # scenario 61 of consumer groups
    assert fetch(world, None, -1) is OK
    assert fetch(world, "A", 2) is OK
    assert fetch(world, "C", 2) is ErrorCode.unknown_member_id
    assert fetch(world, "A", 3) is ErrorCode.stale_member_epoch


def test_a_member_that_was_moved_on_may_fetch_what_it_has_held_since(world: GroupWorld) -> None:
    number = int(world.assigned("A").split()[0][2:])
    asked = OffsetFetchRequestGroup(
        "g", "A", 1, [OffsetFetchRequestTopics(name="t", partition_indexes=[number])]
    )
    call = world.ask(at_version(OffsetFetchRequest(groups=[asked]), 9))
    assert call.response.groups[0].error_code == OK


def test_offsets_of_subscribed_topics_cannot_be_deleted(world: GroupWorld) -> None:
    # scenario 62 of consumer groups
    commit(world, "A", 2, "t-0", "u-0")
    deleted = world.delete_offsets(("t", 0), ("u", 0))
    errors = {each.name: each.partitions[0].error_code for each in deleted.topics}
    assert errors == {"t": ErrorCode.group_subscribed_to_topic, "u": OK}


def test_offsets_of_topics_that_nobody_reads_expire_and_others_stay(world: GroupWorld) -> None:
    commit(world, "A", 2, "t-0", "u-0")
    world.clock.advance(8 * 24 * HOUR_MS)  # the broker was suspended: nobody has timed out
    world.beat("A", 2)
    world.beat("B", 2)
    world.pass_ms(1_000)
    assert committed(world, "u-0") == -1
    assert committed(world, "t-0") == 5


def test_offsets_of_an_empty_group_expire_after_it_was_empty_for_the_retention_time(
    world: GroupWorld,
) -> None:
    # scenario 63 of consumer groups
    commit(world, "A", 2, "t-0")
    world.clock.advance(8 * 24 * HOUR_MS)
    world.beat("A", -1)
    world.beat("B", -1)
    world.restart()
    world.pass_ms(HOUR_MS)
    assert committed(world, "t-0") == 5
    world.pass_ms(7 * 24 * HOUR_MS)
    assert "g" not in world.state.groups
