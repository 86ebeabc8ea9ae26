"""`uniform` for different subscriptions: fill the lightest members, then even out topic by topic."""

from __future__ import annotations

from typing import Final

from klamm.assignors.server.model import GroupSpec, Target

MOST_ROUNDS: Final = 16  # Kafka's bound; a group that needs more stays as even as it is then
NOBODY: Final = -1


def share_unequally(group: GroupSpec) -> Target:
    """What each member should own: what it has and still subscribes to, plus its part of the rest."""
    return _Sharing(group).share()


class _Sharing:
    """One computation. Members are numbered in the order of their ids."""

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._members = sorted(group.members)
        self._sizes = [0] * len(self._members)
        numbers = {member_id: number for number, member_id in enumerate(self._members)}
        self._subscribers = {
            topic_id: [numbers[member_id] for member_id in members]
            for topic_id, members in group.subscribers().items()
        }
        self._owners = {
            topic_id: [NOBODY] * group.topics[topic_id].partition_count for topic_id in self._subscribers
        }

    def share(self) -> Target:
        self._keep()
        topic_ids = sorted(self._subscribers, key=self._urgency)
        for topic_id in topic_ids:
            free = [number for number, owner in enumerate(self._owners[topic_id]) if owner == NOBODY]
            if free:
                scale = _Scale(self._subscribers[topic_id], self._sizes)
                for partition in free:
                    self._give(topic_id, partition, scale.next_lightest())
        self._even_out([topic_id for topic_id in topic_ids if len(self._subscribers[topic_id]) > 1])
        target: dict[str, dict[bytes, list[int]]] = {member_id: {} for member_id in self._members}
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                target[self._members[owner]].setdefault(topic_id, []).append(partition)
        return target

    def _urgency(self, topic_id: bytes) -> tuple[float, int, str]:
        """Sorts topics with most partitions for each subscriber first."""
        topic, subscribers = self._group.topics[topic_id], len(self._subscribers[topic_id])
        return (-topic.partition_count / subscribers, subscribers, topic.name)

    def _keep(self) -> None:
        for number, member_id in enumerate(self._members):
            member = self._group.members[member_id]
            for topic_id, partitions in member.target.items():
                if topic_id in member.topics:
                    owners = self._owners[topic_id]
                    for partition in partitions:
                        if partition < len(owners) and owners[partition] == NOBODY:
                            owners[partition] = number
                            self._sizes[number] += 1

    def _give(self, topic_id: bytes, partition: int, member: int) -> None:
        before = self._owners[topic_id][partition]
        if before != NOBODY:
            self._sizes[before] -= 1
        self._owners[topic_id][partition] = member
        self._sizes[member] += 1

    def _even_out(self, topic_ids: list[bytes]) -> None:
        """Rounds over the topics, until none has moved since the last that did."""
        last_moved: int | None = None
        for _ in range(MOST_ROUNDS):
            for index, topic_id in enumerate(topic_ids):
                if index == last_moved:
                    return
                if self._even_out_topic(topic_id) or last_moved is None:
                    last_moved = index

    def _even_out_topic(self, topic_id: bytes) -> bool:
        """Move partitions of one topic from its heaviest subscribers to its lightest; whether any moved."""
        scale = _Scale(self._subscribers[topic_id], self._sizes)
        if scale.difference() <= 1:
            return False
        held: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic_id]):
            held.setdefault(owner, []).append(partition)
        moved = False
        while not scale.is_even():
            giver = scale.next_heaviest()
            while giver != NOBODY and not held.get(giver):
                scale.leave_out_heaviest()
                giver = scale.next_heaviest()
            if giver == NOBODY:
                break
            partition = held[giver].pop()
            taker = scale.next_lightest()
            if scale.is_even():
                break
            self._give(topic_id, partition, taker)
            moved = True
        return moved


class _Scale:
    """The subscribers of a topic by size: hands out the lightest and the heaviest in turn.

    The sizes change while it is used: who was handed out is one partition heavier or lighter. So the members
    at either end form a range of equal sizes, which is walked through before the next member joins it.
    """

    def __init__(self, subscribers: list[int], sizes: list[int]) -> None:
        self._sizes = sizes
        self._sorted = sorted(subscribers, key=lambda member: (sizes[member], member))
        self._light_end = 0  # the lightest are sorted[:light_end]
        self._light_size = sizes[self._sorted[0]] - 1
        self._light_at = 0
        self._heavy_start = self._heavy_end = len(self._sorted)  # the heaviest: sorted[heavy_start:heavy_end]
        self._heavy_size = sizes[self._sorted[-1]] + 1
        self._heavy_at = self._heavy_end - 1

    def difference(self) -> int:
        """By how much the heaviest is heavier than the lightest."""
        return self._sizes[self._sorted[-1]] - self._sizes[self._sorted[0]]

    def is_even(self) -> bool:
        """Whether no move from the heaviest to the lightest would help."""
        return self._heavy_size - self._light_size <= 1

    def next_lightest(self) -> int:
        if self._light_at >= self._light_end:
            self._light_size += 1
            while (
                self._light_end < len(self._sorted)
                and self._sizes[self._sorted[self._light_end]] == self._light_size
            ):
                self._light_end += 1
            self._light_at = 0
        self._light_at += 1
        return self._sorted[self._light_at - 1]

    def next_heaviest(self) -> int:
        """The next of the heaviest members, or NOBODY when all have been left out."""
        if self._heavy_at < self._heavy_start:
            if self._heavy_end <= self._heavy_start and self._heavy_start > 0:
                self._heavy_size = self._sizes[self._sorted[self._heavy_start - 1]]
            else:
                self._heavy_size -= 1
            while (
                self._heavy_start > 0 and self._sizes[self._sorted[self._heavy_start - 1]] == self._heavy_size
            ):
                self._heavy_start -= 1
            self._heavy_at = self._heavy_end - 1
        if self._heavy_at < 0:
            return NOBODY
        self._heavy_at -= 1
        return self._sorted[self._heavy_at + 1]

    def leave_out_heaviest(self) -> None:
        """The member just handed out has nothing to give: pass it over from here on."""
        at, last = self._heavy_at + 1, self._heavy_end - 1
        self._sorted[at], self._sorted[last] = self._sorted[last], self._sorted[at]
        self._heavy_end -= 1
