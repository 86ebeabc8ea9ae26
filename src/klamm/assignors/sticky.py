"""sticky: balanced, and members keep their partitions where possible."""

from __future__ import annotations

from collections.abc import Mapping

from klamm.assignors.base import (
    Assignment,
    Assignor,
    ClusterView,
    GroupMetadata,
    GroupView,
    Holdings,
    TopicPartition,
    as_assignments,
)
from klamm.assignors.claims import judge_claims
from klamm.assignors.racks import Racks
from klamm.assignors.sticky_equal import share_equally
from klamm.assignors.sticky_unequal import share_unequally
from klamm.protocol.consumer_protocol import StickyMemory, decode_sticky_memory, encode_sticky_memory


class StickyAssignor(Assignor):
    """Balanced first, sticky second.

    An eager member owns nothing when it joins, so it carries its last assignment along as user data.
    """

    name = "sticky"

    def __init__(self) -> None:
        self._memory: StickyMemory | None = None

    def subscription_user_data(self, topics: frozenset[str]) -> bytes | None:
        return None if self._memory is None else encode_sticky_memory(self._memory)

    def on_assignment(self, assignment: Assignment, group_metadata: GroupMetadata) -> None:
        self._memory = StickyMemory(assignment.partitions, group_metadata.generation)

    def assign(self, cluster: ClusterView, group: GroupView) -> dict[str, Assignment]:
        memories = {
            member_id: decode_sticky_memory(member.user_data) for member_id, member in group.members.items()
        }
        holdings, _ = assign_sticky(cluster, group, memories)
        return as_assignments(group.members, holdings)


def assign_sticky(
    cluster: ClusterView, group: GroupView, memories: Mapping[str, StickyMemory]
) -> tuple[Holdings, frozenset[TopicPartition]]:
    """The assignment, and the partitions in it that another member must revoke first."""
    subscribers = group.subscribers_by_topic(cluster)
    if not subscribers:
        return {member_id: [] for member_id in group.members}, frozenset()
    claims = judge_claims(cluster, subscribers, memories)
    racks = Racks(
        cluster, subscribers, {name: each.rack for name, each in group.members.items() if each.rack}
    )
    # Kafka treats a member without topics as equal if it is the first, and assigns partitions to it.
    if len({member.topics for member in group.members.values()}) == 1:
        everything = [each for topic in subscribers for each in cluster.partitions(topic)]
        return share_equally(everything, claims, racks)
    rarest_first = sorted(subscribers, key=lambda topic: (len(subscribers[topic]), topic))
    everything = [each for topic in rarest_first for each in cluster.partitions(topic)]
    return share_unequally(everything, subscribers, claims, racks)
