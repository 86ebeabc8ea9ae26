"""Running an assignor of the coordinator: the target it makes, and the reason when it makes none."""

from __future__ import annotations

import pytest

from klamm.assignors.server import (
    AssignorFailure,
    GroupAssignor,
    GroupSpec,
    MemberSpec,
    Target,
    TopicSpec,
    compute_target,
    is_quick,
    overdue,
)
from klamm.assignors.server.uniform import UniformAssignor

T = b"t" * 16
U = b"u" * 16
GROUP = GroupSpec(
    group_id="orders",
    members={"a": MemberSpec(topics=frozenset({T})), "b": MemberSpec(topics=frozenset({T, U}))},
    topics={
        T: TopicSpec(name="t", partition_count=3),
        U: TopicSpec(name="u", partition_count=1),
    },
)


class Given(GroupAssignor):
    """An assignor that returns, or raises, what a test says."""

    name = "given"

    def __init__(self, found: object) -> None:
        self._found = found

    def assign(self, group: GroupSpec) -> Target:
        if isinstance(self._found, Exception):
            raise self._found
        return self._found  # type: ignore[return-value]  # the point of some tests


def test_every_member_has_an_entry_and_partitions_are_sorted() -> None:
    assert compute_target(Given({"b": {T: {2, 0}, U: [0]}}), GROUP) == {"a": {}, "b": {T: (0, 2), U: (0,)}}


def test_a_topic_without_partitions_is_left_out() -> None:
    assert compute_target(Given({"a": {T: ()}}), GROUP) == {"a": {}, "b": {}}


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (None, "returned NoneType in place of a mapping of member ids"),
        ({"a": [0]}, "gave a list in place of a mapping of topic ids"),
        ({"a": {T: 1}}, "gave a int in place of the partitions of t"),
        ({"c": {}}, "assigned partitions to c, not members of the group"),
        (
            {f"x{n}": {} for n in range(5)},
            "assigned partitions to x0, x1, x2 and 2 more, not members of the group",
        ),
        ({"a": {b"x" * 16: [0]}}, "gave a partitions of the unknown topic id b'xxxxxxxxxxxxxxxx'"),
        ({"a": {U: [0]}}, "gave a partitions of u, which it does not subscribe to"),
        ({"a": {T: [3]}}, "gave a t-3, which does not exist"),
        ({"a": {T: [-1]}}, "gave a t--1, which does not exist"),
        ({"a": {T: [True]}}, "gave a t-True, which does not exist"),
        ({"a": {T: [1]}, "b": {T: [1]}}, "gave t-1 away twice, the second time to b"),
        ({"a": {T: [1, 1]}}, "gave t-1 away twice, the second time to a"),
        (KeyError("weight"), "raised KeyError: 'weight'"),
        (RecursionError("too deep"), "raised RecursionError: too deep"),
    ],
)
def test_an_assignor_that_fails_says_why_and_raises_nothing(found: object, reason: str) -> None:
    assert compute_target(Given(found), GROUP) == AssignorFailure(f"assignor given {reason}")


def test_an_assignor_that_does_not_return_is_a_failure_too() -> None:
    assert overdue("given", 5000).reason == "assignor given did not return within 5000 ms"


@pytest.mark.parametrize(("partitions", "quick"), [(499, True), (500, False)])
def test_large_groups_are_not_computed_on_the_event_loop(partitions: int, quick: bool) -> None:
    group = GroupSpec(
        group_id="orders",
        members={"a": MemberSpec(topics=frozenset({T}))},
        topics={T: TopicSpec(name="t", partition_count=partitions)},
    )
    assert is_quick(UniformAssignor(), group) is quick
    assert not is_quick(Given({}), group)


def test_subscribers_are_sorted_by_topic_name_and_member_id() -> None:
    assert list(GROUP.subscribers().items()) == [(T, ["a", "b"]), (U, ["b"])]
