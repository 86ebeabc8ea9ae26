"""range: per topic, each subscriber gets a run of consecutive partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from klamm.assignors.base import (
    Assignment,
    Assignor,
    ClusterView,
    GroupView,
    Holdings,
    TopicPartition,
    as_assignments,
)
from klamm.assignors.racks import racks_matter


class RangeAssignor(Assignor):
    """Consecutive partitions of each topic; topics with equal partition counts are co-partitioned."""

    name = "range"

    def assign(self, cluster: ClusterView, group: GroupView) -> dict[str, Assignment]:
        return as_assignments(group.members, assign_range(cluster, group))


def assign_range(cluster: ClusterView, group: GroupView) -> Holdings:
    """P partitions for C subscribers: P // C each, the first P % C one more.

    Where racks matter for any topic, members first take partitions of their own rack, within the same
    limits. Topics with the same subscribers and the same count then move together, so that what was
    co-partitioned stays so.
    """
    racks = {member_id: member.rack for member_id, member in group.members.items() if member.rack}
    shares = [
        _TopicShare(topic, tuple(subscribers), cluster, racks)
        for topic, subscribers in group.subscribers_by_topic(cluster).items()
    ]
    if any(share.needs_racks for share in shares):
        _match_racks(shares)
    holdings: Holdings = {member_id: [] for member_id in group.members}
    for share in shares:
        share.take_in_order(lambda _member_id, _number: True)
        for member_id, numbers in share.taken.items():
            holdings[member_id].extend(TopicPartition(share.topic, number) for number in sorted(numbers))
    return holdings


class _TopicShare:
    """The assignment of one topic in progress: the partitions of each member, and its remaining quota."""

    def __init__(
        self, topic: str, subscribers: tuple[str, ...], cluster: ClusterView, racks: dict[str, str]
    ) -> None:
        self.topic = topic
        self.subscribers = subscribers
        self.count = cluster.partition_count(topic)
        self.taken: dict[str, list[int]] = {member_id: [] for member_id in subscribers}
        self.needs_racks = racks_matter(
            {racks[member_id] for member_id in subscribers if member_id in racks},
            [view.replica_racks for view in cluster.topics[topic]],
        )
        self._replica_racks = [view.replica_racks for view in cluster.topics[topic]]
        self._racks = racks
        self._free = dict.fromkeys(range(self.count))
        self._each, self._extras = divmod(self.count, len(subscribers))

    def matches(self, member_id: str, number: int) -> bool:
        """Whether a replica is in the member's rack; a member without a rack is at home everywhere."""
        rack = self._racks.get(member_id)
        return rack is None or rack in self._replica_racks[number]

    def room(self, member_id: str) -> int:
        """How many more this member may take, as long as there are extras one above the even share."""
        limit = self._each + (1 if self._extras else 0)
        return max(0, limit - len(self.taken[member_id]))

    def take(self, member_id: str, numbers: Iterable[int]) -> None:
        taken = self.taken[member_id]
        for number in numbers:
            taken.append(number)
            del self._free[number]
            if len(taken) > self._each:
                self._extras -= 1

    def take_in_order(self, accepts: Callable[[str, int], bool]) -> None:
        """Let each subscriber in turn take the first free partitions it accepts, up to its limit."""
        for member_id in self.subscribers:
            if not self._free:
                break
            chosen = (number for number in self._free if accepts(member_id, number))
            self.take(member_id, list(islice(chosen, self.room(member_id))))


def _match_racks(shares: list[_TopicShare]) -> None:
    sets: dict[tuple[tuple[str, ...], int], list[_TopicShare]] = {}
    for share in shares:
        sets.setdefault((share.subscribers, share.count), []).append(share)
    for together in sets.values():
        if len(together) > 1:
            _match_racks_together(together)
        elif together[0].needs_racks:
            together[0].take_in_order(together[0].matches)


def _match_racks_together(shares: list[_TopicShare]) -> None:
    """Give the same partition of every topic to the first member that is in a rack of all of them."""
    first = shares[0]  # all topics of a set are assigned in step, so the quota left is the same in each
    for number in range(first.count):
        for member_id in first.subscribers:
            if first.room(member_id) and all(share.matches(member_id, number) for share in shares):
                for share in shares:
                    share.take(member_id, (number,))
                break
