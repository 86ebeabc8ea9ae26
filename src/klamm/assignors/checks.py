"""Checks of an assignment before the leader sends it to the group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from klamm.assignors.base import (
    COOPERATIVE,
    Assignment,
    Assignor,
    ClusterView,
    GroupView,
    RebalanceProtocol,
)
from klamm.assignors.cooperative_sticky import CooperativeStickyAssignor
from klamm.errors import IllegalStateError


@dataclass(frozen=True, slots=True)
class CheckedAssignment:
    """A valid assignment, and warnings about it."""

    assignments: Mapping[str, Assignment]  # every member has an entry
    warnings: tuple[str, ...] = ()
    foreign_topics: frozenset[str] = frozenset()  # assigned without a subscriber: now watched


def assign_and_check(
    assignor: Assignor, protocol: RebalanceProtocol, cluster: ClusterView, group: GroupView
) -> CheckedAssignment:
    """Call the assignor, and reject an assignment that would break the group."""
    return check_assignment(assignor, protocol, cluster, group, assignor.assign(cluster, group))


def check_assignment(
    assignor: Assignor,
    protocol: RebalanceProtocol,
    cluster: ClusterView,
    group: GroupView,
    assignments: Mapping[str, Assignment],
) -> CheckedAssignment:
    """Reject unknown members, partitions that do not exist, and violations of the cooperative protocol.

    A partition given to several members is allowed: that is what a broadcast is.
    """
    strangers = sorted(set(assignments) - set(group.members))
    if strangers:
        raise IllegalStateError(
            f"assignor {assignor.name} assigned partitions to {strangers}, not members of the group"
        )
    topics = {topic for given in assignments.values() for topic, _ in given.partitions}
    counts = {topic: cluster.partition_count(topic) for topic in topics}
    missing = sorted(
        {
            str(each)
            for given in assignments.values()
            for each in given.partitions
            if not 0 <= each[1] < counts[each[0]]
        }
    )
    if missing:
        raise IllegalStateError(f"assignor {assignor.name} gives {missing}, which do not exist")
    # cooperative-sticky compares generations: it may pass over a claim that is out of date.
    if protocol is COOPERATIVE and assignor.name != CooperativeStickyAssignor.name:
        _check_nothing_is_given_away(assignor, group, assignments)

    warnings = []
    forgotten = sorted(set(group.members) - set(assignments))
    if forgotten:
        warnings.append(f"assignor {assignor.name} left out members {forgotten}: they get no partitions")
    subscribed = {topic for member in group.members.values() for topic in member.topics}
    foreign = topics - subscribed
    if foreign:
        warnings.append(
            f"assignor {assignor.name} assigned topics without a subscriber: {sorted(foreign)}; "
            "a member that subscribed by list rejects them and rejoins"
        )
    complete = {member_id: assignments.get(member_id, Assignment()) for member_id in group.members}
    return CheckedAssignment(complete, tuple(warnings), frozenset(foreign))


def _check_nothing_is_given_away(
    assignor: Assignor, group: GroupView, assignments: Mapping[str, Assignment]
) -> None:
    given_up_by = {
        partition: member_id
        for member_id, member in group.members.items()
        for partition in set(member.owned).difference(assignments.get(member_id, Assignment()).partitions)
    }
    for member_id, given in assignments.items():
        added = set(given.partitions).difference(group.members[member_id].owned)
        for partition in sorted(added.intersection(given_up_by)):
            raise IllegalStateError(
                f"assignor {assignor.name} gives {partition} to {member_id} while {given_up_by[partition]} "
                "still owns it; a COOPERATIVE assignor must revoke it first and assign it next time"
            )
