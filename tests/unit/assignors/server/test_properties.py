"""The properties that users test their assignors with hold for klamm's own, and find what is wrong."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from klamm.assignors.server import GroupAssignor, GroupSpec, Target
from klamm.assignors.server.rack import LeaderRackGroupAssignor, RackGroupAssignor
from klamm.assignors.server.ranges import RangeGroupAssignor
from klamm.assignors.server.uniform import UniformAssignor
from klamm.testing.group_assignors import GroupAssignorProperties

EXAMPLE = Path(__file__).parents[4] / "examples" / "lag_assignor.py"
BY_LAG: type[GroupAssignor] = runpy.run_path(str(EXAMPLE))["ByLagAssignor"]


class TestUniform(GroupAssignorProperties):
    def make_assignor(self) -> GroupAssignor:
        return UniformAssignor()


class TestRange(GroupAssignorProperties):
    def make_assignor(self) -> GroupAssignor:
        return RangeGroupAssignor()


class TestRack(GroupAssignorProperties):
    def make_assignor(self) -> GroupAssignor:
        return RackGroupAssignor()


class TestRackLeader(GroupAssignorProperties):
    def make_assignor(self) -> GroupAssignor:
        return LeaderRackGroupAssignor()


class TestLagExample(GroupAssignorProperties):
    def make_assignor(self) -> GroupAssignor:
        return BY_LAG()


def test_the_example_gives_the_member_with_most_lag_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == [
        "anna: orders-0",
        "bert: refunds-1",
        "carla: orders-1, orders-2, orders-3, refunds-0",
    ]


class Lazy(GroupAssignor):
    """Gives nothing to anybody."""

    name = "lazy"

    def assign(self, group: GroupSpec) -> Target:
        return {}


class Fickle(UniformAssignor):
    """Counts its calls, and turns the target around on every second one."""

    name = "fickle"
    calls = count()

    def assign(self, group: GroupSpec) -> Target:
        target = super().assign(group)
        if next(self.calls) % 2:
            return target
        members = [each for each in sorted(group.members) if group.members[each].topics]
        shares = [target.get(each, {}) for each in members]
        if len({group.members[each].topics for each in members}) > 1:
            return target
        return dict(zip(members, reversed(shares), strict=True))


class Greedy(GroupAssignor):
    """Gives the first subscriber everything that anybody subscribes to."""

    name = "greedy"

    def assign(self, group: GroupSpec) -> Target:
        first = min(group.members)
        return {first: {each: range(topic.partition_count) for each, topic in group.topics.items()}}


def properties_of(kind: type[GroupAssignor]) -> GroupAssignorProperties:
    class Properties(GroupAssignorProperties):
        def make_assignor(self) -> GroupAssignor:
            return kind()

    return Properties()


@pytest.mark.parametrize(
    ("broken", "check", "finding"),
    [
        (
            Lazy,
            GroupAssignorProperties.test_it_gives_each_partition_once_and_only_to_subscribers,
            "have a subscriber and no owner",
        ),
        (
            Greedy,
            GroupAssignorProperties.test_it_gives_each_partition_once_and_only_to_subscribers,
            "which it does not subscribe to",
        ),
        (Fickle, GroupAssignorProperties.test_it_gives_the_same_group_the_same_target, "after a restart"),
    ],
)
def test_a_broken_assignor_is_found_out(
    broken: type[GroupAssignor], check: Callable[[GroupAssignorProperties], None], finding: str
) -> None:
    with pytest.raises(AssertionError, match=finding):
        check(properties_of(broken))
