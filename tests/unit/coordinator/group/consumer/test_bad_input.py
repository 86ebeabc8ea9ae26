"""What no client should send to a consumer group: the specified error, and nothing else changes."""

from __future__ import annotations

import pytest

from klamm.protocol.errors import ErrorCode
from unit.coordinator.group.consumer.driver import GroupWorld
from unit.coordinator.group.consumer.names import ALL
from unit.coordinator.group.consumer.user_assignors import CONFIG

MANY = 10_000
INT32_MAX = 2**31 - 1


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld(CONFIG)


def test_a_subscription_to_ten_thousand_topics_costs_one_record_and_other_groups_nothing(
    world: GroupWorld,
) -> None:
    names = " ".join(f"absent-{number}" for number in range(MANY))
    assert world.beat("A", 0, topics=f"{names} t").got == ALL
    records, size = world.log.end_offset, len(b"".join(world.log.batches))
    for _ in range(50):
        assert world.beat("A", 1).epoch == 1
    assert world.log.end_offset == records
    assert size < 2 * len(names)
    assert world.beat("A", 1, topics="t").epoch == 2
    assert not [name for name in world.members().memory.readers if name.startswith("absent")]


def test_a_subscription_with_names_twice_is_one_without(world: GroupWorld) -> None:
    world.beat("A", 0, topics=" ".join(["t"] * 1_000))
    assert world.members().memory.members["A"].topics == ("t",)


def test_two_clients_with_one_member_id_are_one_member_and_nothing_is_given_twice(world: GroupWorld) -> None:
    world.beat("A", 0, client="first")
    world.beat("B", 0)
    world.settle(["A", "B"])
    kept = world.assigned("A")
    assert world.beat("A", 0, client="second").got == kept  # it takes the place of the first
    assert set(world.members().memory.members) == {"A", "B"}
    for _ in range(3):
        for client in ("first", "second"):
            assert world.beat("A", 2, owned=kept, client=client).epoch == 2
    assert world.epochs_of() == (2, 2)


@pytest.mark.parametrize("epoch", [2, 100, INT32_MAX])
def test_an_epoch_from_the_future_is_fenced_for_heartbeats_commits_and_fetches(
    world: GroupWorld, epoch: int
) -> None:
    world.beat("A", 0)
    before = world.state.remembered()
    assert world.beat("A", epoch).error is ErrorCode.fenced_member_epoch
    assert world.beat("A", epoch, owned=ALL, topics="t u").error is ErrorCode.fenced_member_epoch
    assert world.commit_error(member_id="A", generation=epoch, version=9) is ErrorCode.stale_member_epoch
    assert world.state.remembered() == before


@pytest.mark.parametrize(
    "owned", ["t-0 t-0 t-0", "t-100000", f"t-{INT32_MAX} u-0", " ".join(f"t-{n}" for n in range(5_000))]
)
def test_partitions_that_do_not_exist_or_come_twice_are_owned_by_nobody(
    world: GroupWorld, owned: str
) -> None:
    world.beat("A", 0)
    assert world.beat("A", 1, owned=owned).epoch == 1
    assert world.assigned("A") == ALL
    world.beat("B", 0)
    world.settle(["A", "B"])
    assert len(world.assigned("B").split()) == 3


@pytest.mark.parametrize(
    "regex", ["(a+)+$", "(a|aa)*b", "(.*)(.*)(.*)(.*)(.*)x", "((a{0,100}){0,10})", "a" * 1_024]
)
def test_expressions_that_explode_elsewhere_match_in_no_time(world: GroupWorld, regex: str) -> None:
    for number in range(200):
        world.topics.create("a" * 200 + str(number), 1)
    beat = world.beat("A", 0, regex=regex)
    world.pass_ms(1)
    assert beat.error is ErrorCode.none
    assert world.beat("A", world.current("A").epoch).error is ErrorCode.none


@pytest.mark.parametrize("regex", ["(a{0,1000}){0,1000}", "a" * 1_025, "(?=a)", "[z-a]", "\x00("])
def test_expressions_that_would_take_memory_without_end_are_refused(world: GroupWorld, regex: str) -> None:
    assert world.beat("A", 0, regex=regex).error is ErrorCode.invalid_regular_expression
    assert not world.state.groups


@pytest.mark.parametrize("name", ["hangs", "raises", "rubbish"])
def test_an_assignor_that_fails_holds_up_no_other_group(world: GroupWorld, name: str) -> None:
    """Nothing of it runs in a decision, whatever it does."""
    world.beat("A", 0, assignor=name, group="bad")
    for epoch in (0, 1, 1):
        assert world.beat("B", epoch, group="good").epoch == 1
    ((_, asked),) = world.outside
    assert asked.group_id == "bad"
    assert world.state_of("bad") == "Assigning"
