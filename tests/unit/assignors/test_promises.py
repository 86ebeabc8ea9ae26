"""What every assignor promises, whatever the group; an own one inherits these tests by its name."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.assignors import (
    COOPERATIVE,
    Assignment,
    Assignor,
    ClusterView,
    GroupView,
    MemberSubscription,
    TopicPartition,
)
from klamm.assignors.checks import assign_and_check
from klamm.assignors.registry import BUILT_IN, common_protocol
from unit.assignors.notation import after, an_assignor, as_sets, assigned
from unit.assignors.random_groups import Situation, random_situation


@dataclass(frozen=True)
class Promises:
    """What an assignor says of itself beyond giving existing partitions to subscribers."""

    once: bool = True  # every partition has one holder
    balanced: bool = False  # equal subscriptions: sizes differ by at most one
    sticky: bool = False  # who holds something keeps it as long as balance allows


ASSIGNORS = {
    "range": Promises(),
    "roundrobin": Promises(balanced=True),
    "sticky": Promises(balanced=True, sticky=True),
    "cooperative-sticky": Promises(balanced=True, sticky=True),
    "random": Promises(),
    "rack-leader": Promises(),
    "broadcast": Promises(once=False),
    "unit.assignors.own:WeightedAssignor": Promises(balanced=True),
}
CONFIG = {"random.seed": 7, "client.id": "me", "enable.auto.commit": False}


def situations(*, equal: bool | None = None, with_racks: bool | None = None) -> st.SearchStrategy[Situation]:
    """A seed and what comes of it: much quicker to draw than a group piece by piece."""
    return st.integers(0, 2**32).map(
        lambda seed: random_situation(Random(seed), equal=equal, with_racks=with_racks)
    )


def those_that(promise: str) -> list[str]:
    return [name for name, promises in ASSIGNORS.items() if getattr(promises, promise)]


def rounds(assignor: Assignor, cluster: ClusterView, group: GroupView) -> list[dict[str, Assignment]]:
    """What is given out until the group is at rest: who has to give something up joins again."""
    results: list[dict[str, Assignment]] = []
    while len(results) < 8:
        results.append(assigned(assignor, cluster, group))
        gives_up = any(
            set(member.owned).difference(results[-1][member_id].partitions)
            for member_id, member in group.members.items()
        )
        if COOPERATIVE not in assignor.supported_protocols or not gives_up:
            break
        group = after(group, results[-1])
    return results


def settled(assignor: Assignor, cluster: ClusterView, group: GroupView) -> dict[str, Assignment]:
    """What everybody holds in the end."""
    return rounds(assignor, cluster, group)[-1]


def test_every_built_in_assignor_is_tested_here() -> None:
    assert set(BUILT_IN) <= set(ASSIGNORS)


@pytest.mark.parametrize("name", ASSIGNORS)
@given(situation=situations())
def test_only_existing_partitions_go_to_subscribers_and_everybody_has_an_entry(
    name: str, situation: Situation
) -> None:
    cluster, group = situation
    given_out = assigned(an_assignor(name, CONFIG), cluster, group)
    assert set(given_out) == set(group.members)
    for member_id, assignment in given_out.items():
        assert all(cluster.has(each) for each in assignment.partitions)
        assert {each.topic for each in assignment.partitions} <= group.members[member_id].topics
        assert len(set(assignment.partitions)) == len(assignment.partitions)


@pytest.mark.parametrize("name", ASSIGNORS)
@given(situation=situations())
def test_the_same_group_gets_the_same_result_in_whatever_order_its_members_came(
    name: str, situation: Situation
) -> None:
    cluster, group = situation
    backwards = GroupView(dict(reversed(list(group.members.items()))))
    first = assigned(an_assignor(name, CONFIG), cluster, group)
    assert assigned(an_assignor(name, CONFIG), cluster, backwards) == first


@pytest.mark.parametrize("name", those_that("once"))
@given(situation=situations())
def test_every_partition_that_somebody_wants_has_one_holder(name: str, situation: Situation) -> None:
    cluster, group = situation
    given_out = settled(an_assignor(name, CONFIG), cluster, group)
    holders = Counter(each for assignment in given_out.values() for each in assignment.partitions)
    wanted = [each for topic in group.subscribers_by_topic(cluster) for each in cluster.partitions(topic)]
    assert holders == Counter(wanted)


@pytest.mark.parametrize("name", those_that("balanced"))
@given(situation=situations(equal=True))
def test_members_with_equal_subscriptions_differ_by_one_partition_at_most(
    name: str, situation: Situation
) -> None:
    given_out = settled(an_assignor(name, CONFIG), *situation)
    sizes = [len(assignment.partitions) for assignment in given_out.values()]
    assert max(sizes) - min(sizes) <= 1


def comes_to_rest(situation: Situation) -> bool:
    """Where all subscriptions are equal and members have racks, the result is Kafka's, and may wander on."""
    members = situation[1].members.values()
    return len({member.topics for member in members}) > 1 or not any(member.rack for member in members)


at_rest = situations().filter(comes_to_rest)


@given(situation=at_rest)
def test_a_cooperative_group_settles_within_three_rounds(situation: Situation) -> None:
    assert len(rounds(an_assignor("cooperative-sticky"), *situation)) <= 3


@pytest.mark.parametrize("name", those_that("sticky"))
@given(situation=at_rest)
def test_repeating_the_result_moves_nothing(name: str, situation: Situation) -> None:
    cluster, group = situation
    assignor = an_assignor(name)
    given_out = settled(assignor, cluster, group)
    assert settled(assignor, cluster, after(group, given_out)) == given_out


@pytest.mark.parametrize("name", those_that("sticky"))
@given(situation=situations(equal=True, with_racks=False), data=st.data())
def test_when_a_member_leaves_the_others_keep_all_they_have(
    name: str, situation: Situation, data: st.DataObject
) -> None:
    cluster, group = situation
    assignor = an_assignor(name)
    before = settled(assignor, cluster, group)
    gone = data.draw(st.sampled_from(sorted(group.members)))
    remaining = dict(after(group, before).members)
    del remaining[gone]
    now = as_sets(settled(assignor, cluster, GroupView(remaining)))
    for member_id, held in now.items():
        assert held >= set(before[member_id].partitions)


@pytest.mark.parametrize("name", those_that("sticky"))
@given(situation=situations(equal=True, with_racks=False), newcomer=st.sampled_from(["0", "d", "zz"]))
def test_when_a_member_joins_partitions_move_only_to_it(
    name: str, situation: Situation, newcomer: str
) -> None:
    cluster, group = situation
    assignor = an_assignor(name)
    before = settled(assignor, cluster, group)
    joined = dict(after(group, before).members)
    joined[newcomer] = MemberSubscription(next(iter(joined.values())).topics)
    now = as_sets(settled(assignor, cluster, GroupView(joined)))
    for member_id, assignment in before.items():
        assert now[member_id] <= set(assignment.partitions)


@given(situation=situations())
def test_a_cooperative_round_adds_nothing_that_another_member_rightly_owns(situation: Situation) -> None:
    cluster, group = situation
    # Given members who tell the truth: what they hold is what the last round gave them
    truthful = after(group, assigned(an_assignor("cooperative-sticky"), cluster, group))
    owner = {each: name for name, member in truthful.members.items() for each in member.owned}
    # When one of them no longer wants its topics
    somebody = min(truthful.members)
    members = {**truthful.members, somebody: replace(truthful.members[somebody], topics=frozenset())}
    given_out = assigned(an_assignor("cooperative-sticky"), cluster, GroupView(members))
    # Then nothing it still owns is given out before it let go
    for name, assignment in given_out.items():
        assert all(owner.get(each, name) == name for each in assignment.partitions)


@pytest.mark.parametrize("name", ASSIGNORS)
@given(situation=situations())
def test_what_an_assignor_gives_passes_the_checks_of_the_leader(name: str, situation: Situation) -> None:
    cluster, group = situation
    assignor = an_assignor(name, CONFIG)
    checked = assign_and_check(assignor, common_protocol([assignor]), cluster, group)
    assert set(checked.assignments) == set(group.members)
    assert checked.warnings == ()
    assert checked.foreign_topics == frozenset()


def test_a_disputed_partition_goes_to_nobody_who_claims_it_before_all_gave_it_up() -> None:
    cluster = ClusterView.of_counts({"t": 2})
    disputed = TopicPartition("t", 0)
    both = MemberSubscription(frozenset("t"), owned=(disputed,), generation=1)
    given_out = an_assignor("cooperative-sticky").assign(cluster, GroupView({"A": both, "B": both}))
    assert as_sets(given_out) == {"A": set(), "B": {TopicPartition("t", 1)}}
