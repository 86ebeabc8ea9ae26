"""What the leader refuses, and what it only remarks on."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from klamm.assignors import (
    COOPERATIVE,
    EAGER,
    Assignment,
    Assignor,
    ClusterView,
    GroupView,
    RebalanceProtocol,
)
from klamm.assignors.checks import CheckedAssignment, assign_and_check
from klamm.errors import IllegalStateError
from unit.assignors.notation import a_cluster, a_group, partitions


class ScriptedAssignor(Assignor):
    """Gives what it is told to."""

    name = "scripted"
    supported_protocols = (COOPERATIVE, EAGER)

    def __init__(self, script: Mapping[str, str]) -> None:
        self._script = script

    def assign(self, cluster: ClusterView, group: GroupView) -> dict[str, Assignment]:
        return {member_id: Assignment(partitions(text)) for member_id, text in self._script.items()}


def checked(
    script: Mapping[str, str], members: str, protocol: RebalanceProtocol = EAGER
) -> CheckedAssignment:
    cluster = a_cluster("t:2 u:1")
    return assign_and_check(ScriptedAssignor(script), protocol, cluster, a_group(members, cluster))


def test_a_sound_assignment_passes_without_a_word() -> None:
    result = checked({"A": "t-0", "B": "t-1"}, "A(t) B(t)")
    assert result.assignments == {"A": Assignment(partitions("t-0")), "B": Assignment(partitions("t-1"))}
    assert result.warnings == ()


def test_a_member_who_is_not_in_the_group_is_refused() -> None:
    with pytest.raises(IllegalStateError, match=r"scripted assigned partitions to \['X'\]"):
        checked({"A": "t-0", "X": "t-1"}, "A(t)")


@pytest.mark.parametrize("missing", ["t-2", "t--1", "x-0"])
def test_a_partition_that_does_not_exist_is_refused(missing: str) -> None:
    with pytest.raises(IllegalStateError, match="do not exist"):
        checked({"A": f"t-0 {missing}"}, "A(t)")


def test_a_forgotten_member_gets_nothing_with_a_warning() -> None:
    result = checked({"A": "t-0 t-1"}, "A(t) B(t)")
    assert result.assignments["B"] == Assignment()
    assert "left out members ['B']" in result.warnings[0]


def test_topics_that_nobody_subscribed_to_are_watched_with_a_warning() -> None:
    result = checked({"A": "t-0 u-0"}, "A(t)")
    assert result.foreign_topics == {"u"}
    assert "['u']" in result.warnings[0]


def test_a_partition_may_be_given_twice() -> None:
    result = checked({"A": "t-0", "B": "t-0"}, "A(t; t-0 @1) B(t)", COOPERATIVE)
    assert result.warnings == ()


def test_a_cooperative_assignor_may_not_give_away_what_another_member_owns() -> None:
    with pytest.raises(IllegalStateError, match="gives t-0 to B while A still owns it"):
        checked({"A": "t-1", "B": "t-0"}, "A(t; t-0 t-1 @1) B(t)", COOPERATIVE)


def test_taking_away_and_giving_out_later_is_cooperative() -> None:
    assert checked({"A": "t-1", "B": ""}, "A(t; t-0 t-1 @1) B(t)", COOPERATIVE).warnings == ()
    assert checked({"A": "t-1", "B": "t-0"}, "A(t; t-1 @2) B(t)", COOPERATIVE).warnings == ()


def test_under_the_eager_protocol_everything_was_given_up_before() -> None:
    assert checked({"A": "t-1", "B": "t-0"}, "A(t; t-0 t-1 @1) B(t)", EAGER).warnings == ()


def test_cooperative_sticky_knows_better_than_the_check_whose_claim_is_out_of_date() -> None:
    assignor = ScriptedAssignor({"A": "", "B": "t-0"})
    assignor.name = "cooperative-sticky"
    cluster = a_cluster("t:1")
    group = a_group("A(t; t-0 @1) B(t)", cluster)
    assert assign_and_check(assignor, COOPERATIVE, cluster, group).warnings == ()
