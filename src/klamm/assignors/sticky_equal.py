"""sticky where all members subscribe to the same topics: even shares, and as much as possible stays."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from klamm.assignors.base import Holdings, TopicPartition
from klamm.assignors.claims import Claims
from klamm.assignors.racks import Racks

_BY_NUMBER: Final = attrgetter("partition", "topic")


def share_equally(
    partitions: Sequence[TopicPartition], claims: Claims, racks: Racks
) -> tuple[Holdings, frozenset[TopicPartition]]:
    """The assignment, and the partitions in it that another member must revoke first.

    `partitions` are all there are, by (topic, number).
    """
    member_ids = sorted(claims.owned)
    shares = _EqualShares(len(partitions), member_ids)
    for member_id in member_ids:
        owned = claims.owned[member_id]
        if racks.matter:
            owned = [each for each in owned if not racks.is_far(member_id, each)]
        shares.keep(member_id, owned)
    kept = {each for of_member in shares.holdings.values() for each in of_member}
    free = [each for each in partitions if each not in kept]
    if racks.matter:
        free.sort(key=racks.local_member_count)  # stable: within a count the order stays (topic, number)
        free = shares.deal_locally(free, racks)
    shares.deal(free)

    moving = {
        partition
        for member_id, of_member in shares.holdings.items()
        for partition in of_member
        if partition in claims.contested or claims.owner.get(partition, member_id) != member_id
    }
    return shares.holdings, frozenset(moving)


class _EqualShares:
    """T partitions for N members: T // N each, and T % N of the members one more."""

    def __init__(self, partition_count: int, member_ids: Sequence[str]) -> None:
        self.holdings: Holdings = {member_id: [] for member_id in member_ids}
        self._least, self._extras = divmod(partition_count, len(member_ids))
        self._most = self._least + 1 if self._extras else self._least
        self._under: deque[str] = deque()  # hold less than the least
        self._exact: deque[str] = deque()  # hold just that, and may yet get an extra one

    def keep(self, member_id: str, owned: list[TopicPartition]) -> None:
        """Let a member keep its partitions up to its quota; members are sorted."""
        owned = sorted(owned, key=_BY_NUMBER)
        if len(owned) < self._least:
            self.holdings[member_id] = owned
            self._under.append(member_id)
        elif len(owned) >= self._most and self._extras:
            self.holdings[member_id] = owned[: self._most]
            self._use_extra()
        else:
            self.holdings[member_id] = owned[: self._least]
            if self._extras:
                self._exact.append(member_id)

    def deal_locally(self, free: list[TopicPartition], racks: Racks) -> list[TopicPartition]:
        """Assign partitions to members in their racks, within the quotas; returns the unassigned rest."""
        under = list(self._under)
        pointer = 0
        left: list[TopicPartition] = []
        for partition in free:
            index = _next_local(partition, under, pointer, racks)
            if index is not None:
                member_id = under[index]
                self.holdings[member_id].append(partition)
                if len(self.holdings[member_id]) >= self._least:
                    del under[index]
                    if self._extras:
                        self._exact.append(member_id)
                else:
                    index += 1
                pointer = index % len(under) if under else 0
                continue
            exact = list(self._exact)
            index = _next_local(partition, exact, 0, racks)
            if index is None:
                left.append(partition)
            else:
                self.holdings[exact[index]].append(partition)
                del self._exact[index]
                self._use_extra()
        self._under = deque(under)
        return left

    def deal(self, free: list[TopicPartition]) -> None:
        """Assign in turn until every member has the minimum, then one extra where the quota allows."""
        for partition in free:
            if not self._under:
                self.holdings[self._exact.popleft()].append(partition)
                continue
            member_id = self._under.popleft()
            self.holdings[member_id].append(partition)
            waits = self._exact if len(self.holdings[member_id]) == self._least else self._under
            waits.append(member_id)

    def _use_extra(self) -> None:
        self._extras -= 1
        if not self._extras:
            self._exact.clear()


def _next_local(partition: TopicPartition, members: list[str], start: int, racks: Racks) -> int | None:
    """The index of the next member near the partition, going round once from `start`."""
    for step in range(len(members)):
        index = (start + step) % len(members)
        if racks.is_local(members[index], partition):
            return index
    return None
