"""`rack`: even shares first, and then as many partitions as possible in the rack of their member."""

from __future__ import annotations

from random import Random

import pytest

from klamm.assignors.server import GroupSpec, MemberSpec, PartitionView, TopicSpec
from klamm.assignors.server.rack import LeaderRackGroupAssignor, RackGroupAssignor
from klamm.assignors.server.uniform import UniformAssignor
from klamm.testing.group_assignors import random_group, topic_id
from unit.assignors.server.specs import NamedShare, a_member, a_spec, after, target_of

T = ["t"]


def in_their_rack(group: GroupSpec, target: dict[str, NamedShare]) -> int:
    views = {topic.name: topic.partitions for topic in group.topics.values()}
    return sum(
        group.members[member_id].rack_id in views[name][partition].replica_racks
        for member_id, share in target.items()
        for name, partitions in share.items()
        for partition in partitions
    )


def sizes(target: dict[str, NamedShare]) -> list[int]:
    return sorted(sum(map(len, share.values())) for share in target.values())


def test_members_get_the_partitions_of_their_rack() -> None:
    group = a_spec(
        {"t": 6},
        {name: a_member(T, rack=name) for name in "abc"},
        {"t": ["a", "b", "c", "a", "b", "c"]},
    )
    assert target_of(RackGroupAssignor(), group) == {
        "a": {"t": [0, 3]},
        "b": {"t": [1, 4]},
        "c": {"t": [2, 5]},
    }


def test_shares_stay_even_if_one_rack_has_all_partitions() -> None:
    group = a_spec({"t": 4}, {"a": a_member(T, rack="a"), "b": a_member(T, rack="b")}, {"t": ["a"] * 4})
    target = target_of(RackGroupAssignor(), group)
    assert sizes(target) == [2, 2]
    assert in_their_rack(group, target) == 2


def test_the_extra_partition_goes_to_the_rack_it_is_in() -> None:
    group = a_spec({"t": 3}, {"a": a_member(T, rack="a"), "b": a_member(T, rack="b")}, {"t": ["a", "b", "a"]})
    assert target_of(RackGroupAssignor(), group) == {"a": {"t": [0, 2]}, "b": {"t": [1]}}


def test_members_and_partitions_without_racks_are_shared_as_by_uniform() -> None:
    group = a_spec({"t": 5}, {"a": a_member(T), "b": a_member(T, rack="b")})
    assert target_of(RackGroupAssignor(), group) == target_of(UniformAssignor(), group)


def test_partitions_near_nobody_stay_where_they_are() -> None:
    members = {"a": a_member(T, {"t": [1]}, rack="a"), "b": a_member(T, {"t": [0]}, rack="b")}
    group = a_spec({"t": 2}, members, {"t": ["z", "z"]})
    assert target_of(RackGroupAssignor(), group) == {"a": {"t": [1]}, "b": {"t": [0]}}


def test_leaders_are_followed_only_by_the_assignor_that_says_so() -> None:
    everywhere = frozenset(("a", "b"))
    views = tuple(PartitionView(everywhere, leader) for leader in ("b", "a"))
    group = GroupSpec(
        group_id="g",
        members={
            "a": MemberSpec(topics=frozenset({topic_id("t")}), rack_id="a"),
            "b": MemberSpec(topics=frozenset({topic_id("t")}), rack_id="b"),
        },
        topics={topic_id("t"): TopicSpec(name="t", partition_count=2, partitions=views)},
    )
    assert target_of(RackGroupAssignor(), group) == {"a": {"t": [0]}, "b": {"t": [1]}}
    assert target_of(LeaderRackGroupAssignor(), group) == {"a": {"t": [1]}, "b": {"t": [0]}}


@pytest.mark.parametrize("seed", range(300))
def test_shares_are_as_even_as_those_of_uniform_and_nearer(seed: int) -> None:
    group = random_group(Random(seed), RackGroupAssignor(), with_racks=True)
    uniform, rack = target_of(UniformAssignor(), group), target_of(RackGroupAssignor(), group)
    assert max(sizes(rack)) - min(sizes(rack)) <= max(sizes(uniform)) - min(sizes(uniform))
    assert in_their_rack(group, rack) >= in_their_rack(group, uniform)


@pytest.mark.parametrize("seed", range(100))
def test_nothing_moves_when_nothing_has_changed(seed: int) -> None:
    group = after(RackGroupAssignor(), random_group(Random(seed), RackGroupAssignor(), with_racks=True))
    assert target_of(RackGroupAssignor(), group) == target_of(
        RackGroupAssignor(), after(RackGroupAssignor(), group)
    )
