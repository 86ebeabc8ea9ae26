"""Rebalances by random scripts, and what they have found."""

from __future__ import annotations

from pathlib import Path

import pytest

import klamm
from klamm.assignors.range import RangeAssignor
from klamm.testing import ScriptedGroup, check_rebalances, random_script
from klamm.testing.rebalances.scripts import Step, play
from unit.docs.blocks import blocks_of
from unit.testing.scripted import a_group


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_built_in_assignors_keep_their_promises_in_random_scripts(assignor: str) -> None:
    check_rebalances(
        lambda seed: ScriptedGroup({"orders": 6, "payments": 3}, assignor, seed=seed),
        seeds=range(5),
        check=lambda group: group.check(),
    )


def test_a_failure_names_its_seed_the_steps_that_are_enough_and_the_story() -> None:
    def never_more_than_one(group: ScriptedGroup) -> None:
        assert max((len(each.assignment) for each in group.history), default=0) < 2, "two members"

    with pytest.raises(AssertionError) as caught:
        check_rebalances(lambda seed: a_group(seed=seed), seeds=[3], check=never_more_than_one)
    text = str(caught.value)
    assert text.startswith("seed 3: AssertionError: two members")
    assert text.count("group.join(") == 2  # of the many that the script has
    assert "group = make_group(3)" in text
    assert "generation 1 by" in text


def test_a_static_member_with_an_id_that_is_not_logged_is_fenced_when_the_coordinator_restarts() -> None:
    # As by Apache Kafka 4.3.1: the new id is in the log when the generation is complete.
    group = a_group()
    group.join("a", "b", static=True)
    group.settle()
    leader = group.history[-1].leader
    (other,) = {"a", "b"} - {leader}
    group.die(other)
    group.join("c")
    group.advance("5s")
    group.stall(leader)  # before it can assign the partitions
    assert not group.unregistered
    group.restart(other)
    assert list(group.unregistered) == [other]
    assert not Step("restart_coordinator").applies(group)
    group.restart_coordinator()
    with pytest.raises(klamm.FencedInstanceIdError):
        group.settle()


@pytest.mark.parametrize("rack", [None, "r1"])
@pytest.mark.parametrize("seed", [None, *range(10)])
def test_partitions_that_were_added_before_a_static_leader_returned_have_an_owner(
    seed: int | None, rack: str | None
) -> None:
    group = a_group(seed=seed, racks=("r1", "r2"), settings={"client_rack": rack} if rack else None)
    group.join("a", "b", static=True)
    group.settle()
    generation = group.generation
    leader = group.history[-1].leader
    group.restart(leader)
    group.settle()
    assert group.generation == generation  # nothing has changed
    group.add_partitions("orders", 9)
    group.restart(leader)
    group.settle()
    assert sum(map(len, group.assignment.values())) == 9
    assert group.history[-1].cause.endswith("the group's topics have other partitions")


@pytest.mark.parametrize("end", ["restart", "die", "leave"])
def test_what_a_process_sent_before_its_end_does_not_fence_the_next_one(end: str) -> None:
    for seed in range(40):
        group = a_group(seed=seed)
        group.join("a", "b", static=True)
        group.settle()
        group.restart("a")
        for _ in range(3):
            if end == "restart":
                group.restart("a")
            else:
                getattr(group, end)("a")
                group.join("a", static=True)
        group.settle()
        assert group.members == ("b", "a")


def test_a_seed_makes_the_same_story_in_each_run() -> None:
    def story(seed: int) -> str:
        group = a_group("sticky", seed=seed)
        play(group, random_script(7, 60, partitions=group.partitions))
        return group.story()

    assert story(1) == story(1)
    assert story(1) != story(2)


def test_one_seed_runs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLAMM_SEED", "11")
    seeds: list[int] = []

    def make(seed: int) -> ScriptedGroup:
        seeds.append(seed)
        return a_group(seed=seed)

    check_rebalances(make, steps=5)
    assert set(seeds) == {11}


def test_the_examples_of_the_documentation_run() -> None:
    page = Path(__file__).parents[3] / "docs/testing.md"
    blocks = [each.text for each in blocks_of(page) if "ScriptedGroup" in each.text]
    assert len(blocks) == 4
    names: dict[str, object] = {"MyAssignor": RangeAssignor}
    for block in blocks:
        exec(block.replace("MyAssignor, seed=seed)", "MyAssignor, seed=seed), seeds=range(3)"), names)
