"""rack-leader: read from where the leader is."""

from __future__ import annotations

from collections.abc import Mapping

from klamm.assignors.base import (
    Assignment,
    Assignor,
    ClusterView,
    GroupView,
    Holdings,
    MemberSubscription,
    TopicPartition,
    as_assignments,
)


class RackLeaderAssignor(Assignor):
    """Partitions go to members in the rack of their leader; each member names its rack as user data."""

    name = "rack-leader"

    def __init__(self, rack: str | None = None) -> None:
        self._rack = rack

    def configure(self, config: Mapping[str, object]) -> None:
        rack = config.get("client.rack")
        if rack:
            self._rack = str(rack)

    def subscription_user_data(self, topics: frozenset[str]) -> bytes | None:
        return self._rack.encode() if self._rack else None

    def assign(self, cluster: ClusterView, group: GroupView) -> dict[str, Assignment]:
        return as_assignments(group.members, assign_near_leaders(cluster, group))


def assign_near_leaders(cluster: ClusterView, group: GroupView) -> Holdings:
    """Each partition to the lightest subscriber in its leader's rack, else to the lightest of all."""
    rack_of = {member_id: _rack(member) for member_id, member in group.members.items()}
    holdings: Holdings = {member_id: [] for member_id in group.members}
    for topic, subscribers in group.subscribers_by_topic(cluster).items():
        for number, view in enumerate(cluster.topics[topic]):
            near = [each for each in subscribers if view.leader_rack and rack_of[each] == view.leader_rack]
            # min() returns the first of equals, and subscribers are in member order.
            lightest = min(near or subscribers, key=lambda each: len(holdings[each]))
            holdings[lightest].append(TopicPartition(topic, number))
    return holdings


def _rack(member: MemberSubscription) -> str | None:
    """The rack a member names; user data that is no text names none."""
    if member.user_data is None:
        return member.rack
    try:
        return member.user_data.decode() or member.rack
    except UnicodeDecodeError:
        return member.rack
