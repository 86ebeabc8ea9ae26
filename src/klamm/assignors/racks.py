"""Rack awareness: whether racks matter, and which members share a rack with which partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from klamm.assignors.base import ClusterView, TopicPartition


def racks_matter(member_racks: Collection[str], replica_racks: Collection[frozenset[str]]) -> bool:
    """Whether racks can influence the assignment.

    Some member must be in the rack of some replica, and the partitions must not all have the same racks.
    """
    return len(set(replica_racks)) > 1 and any(
        rack in racks for racks in set(replica_racks) for rack in member_racks
    )


class Racks:
    """The members in the racks of each partition, over all topics; empty where racks do not matter."""

    def __init__(
        self, cluster: ClusterView, topics: Iterable[str], rack_by_member: Mapping[str, str | None]
    ) -> None:
        known = {member_id: rack for member_id, rack in rack_by_member.items() if rack}
        self.matter = False
        self._rack_by_member: dict[str, str] = {}
        self._replica_racks: dict[str, list[frozenset[str]]] = {}
        self._members_in: Mapping[str, int] = {}
        if not known:
            return
        replica_racks = {topic: [view.replica_racks for view in cluster.topics[topic]] for topic in topics}
        everywhere = [racks for of_topic in replica_racks.values() for racks in of_topic]
        if racks_matter(set(known.values()), everywhere):
            self.matter = True
            self._rack_by_member = known
            self._replica_racks = replica_racks
            self._members_in = Counter(known.values())

    def is_far(self, member_id: str, partition: TopicPartition) -> bool:
        """The member has a rack and no replica is in it."""
        rack = self._rack_by_member.get(member_id)
        return rack is not None and rack not in self._replica_racks[partition.topic][partition.partition]

    def is_local(self, member_id: str, partition: TopicPartition) -> bool:
        """The member has a rack and a replica is in it."""
        rack = self._rack_by_member.get(member_id)
        return rack is not None and rack in self._replica_racks[partition.topic][partition.partition]

    def local_member_count(self, partition: TopicPartition) -> int:
        """How many members are near."""
        racks = self._replica_racks[partition.topic][partition.partition]
        return sum(self._members_in[rack] for rack in racks)
