"""cooperative-sticky: as sticky, but members revoke only the partitions that move."""

from __future__ import annotations

from klamm.assignors.base import (
    COOPERATIVE,
    EAGER,
    Assignment,
    Assignor,
    ClusterView,
    GroupMetadata,
    GroupView,
    MemberSubscription,
    as_assignments,
)
from klamm.assignors.sticky import assign_sticky
from klamm.protocol.consumer_protocol import StickyMemory, decode_generation, encode_generation


class CooperativeStickyAssignor(Assignor):
    """Sticky in two steps: what moves is taken away first, and given out by the rebalance after it."""

    name = "cooperative-sticky"
    supported_protocols = (COOPERATIVE, EAGER)

    def __init__(self) -> None:
        self._generation: int | None = None

    def subscription_user_data(self, topics: frozenset[str]) -> bytes | None:
        return encode_generation(self._generation)

    def on_assignment(self, assignment: Assignment, group_metadata: GroupMetadata) -> None:
        self._generation = group_metadata.generation

    def assign(self, cluster: ClusterView, group: GroupView) -> dict[str, Assignment]:
        memories = {member_id: _memory(member) for member_id, member in group.members.items()}
        holdings, moving = assign_sticky(cluster, group, memories)
        granted = {
            member_id: [each for each in of_member if each not in moving]
            for member_id, of_member in holdings.items()
        }
        return as_assignments(group.members, granted)


def _memory(member: MemberSubscription) -> StickyMemory:
    """What a member owns; before version 2 of the subscription its generation is in the user data."""
    generation = member.generation
    return StickyMemory(
        member.owned, decode_generation(member.user_data) if generation is None else generation
    )
