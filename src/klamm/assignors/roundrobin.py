"""roundrobin: deal all partitions of all topics to the members in turn."""

from __future__ import annotations

from klamm.assignors.base import (
    Assignment,
    Assignor,
    ClusterView,
    GroupView,
    Holdings,
    as_assignments,
)


class RoundRobinAssignor(Assignor):
    """Partitions one by one around the ring of members."""

    name = "roundrobin"

    def assign(self, cluster: ClusterView, group: GroupView) -> dict[str, Assignment]:
        return as_assignments(group.members, assign_round_robin(cluster, group))


def assign_round_robin(cluster: ClusterView, group: GroupView) -> Holdings:
    """Give each partition to the next subscriber at or after the pointer, which moves behind it."""
    ring = group.in_order()
    holdings: Holdings = {member_id: [] for member_id in ring}
    pointer = 0
    for topic in group.subscribers_by_topic(cluster):
        for partition in cluster.partitions(topic):
            while topic not in group.members[ring[pointer]].topics:
                pointer = (pointer + 1) % len(ring)
            holdings[ring[pointer]].append(partition)
            pointer = (pointer + 1) % len(ring)
    return holdings
