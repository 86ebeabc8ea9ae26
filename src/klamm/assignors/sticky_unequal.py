"""sticky where members subscribe to different topics: keep, fill up, then move what is unfair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import groupby
from operator import attrgetter

from klamm.assignors.base import Holdings, TopicPartition
from klamm.assignors.claims import Claims
from klamm.assignors.racks import Racks
from klamm.assignors.sticky_moves import Moves


def share_unequally(
    partitions: Sequence[TopicPartition],
    subscribers: Mapping[str, Sequence[str]],
    claims: Claims,
    racks: Racks,
) -> tuple[Holdings, frozenset[TopicPartition]]:
    """The assignment, and the partitions in it that another member must revoke first.

    `partitions` are all there are, by (fewest subscribers, topic, number). Without racks the result is
    Kafka's, partition by partition. With racks Kafka also unassigns partitions outside their owner's rack,
    and then moves partitions of one random group in ten though nothing changed. Here unassigned
    partitions go to members in their rack, and owned ones stay.
    """
    shares = _UnequalShares(subscribers, claims)
    something_dropped = shares.keep(claims.owned)
    starting_empty = not shares.holder
    free = [each for each in partitions if each not in shares.holder]
    left = shares.fill(free, racks.is_far)
    shares.fill(left, lambda _member_id, _partition: False)

    fixed = shares.fixed_members()
    holder_before, count_before = dict(shares.holder), dict(shares.count)
    movable = [each for each in partitions if len(subscribers[each.topic]) > 1]
    if not something_dropped:
        # Partitions without a previous owner can move at no cost.
        fresh = set(free)
        shares.balance([each for each in movable if each in fresh])
    moved = shares.balance(movable)
    holder = shares.holder
    if moved and not starting_empty and _unfairness(shares.count, fixed) >= _unfairness(count_before, fixed):
        holder = holder_before

    holdings: Holdings = {member_id: [] for member_id in claims.owned}
    claimants = claims.claimants()
    moving = set()
    for partition, member_id in holder.items():
        holdings[member_id].append(partition)
        if member_id not in claimants.get(partition, (member_id,)):
            moving.add(partition)
    return holdings, frozenset(moving)


class _UnequalShares:
    """The assignment while it is being balanced."""

    def __init__(self, subscribers: Mapping[str, Sequence[str]], claims: Claims) -> None:
        self.holder: dict[TopicPartition, str] = {}
        self.count = dict.fromkeys(claims.owned, 0)
        self._subscribers = {topic: frozenset(members) for topic, members in subscribers.items()}
        self._earlier_owner = claims.earlier_owners()
        self._lightest_by_topic: dict[str, str] = {}  # dropped whenever a count changes
        self._moves = Moves()

    def keep(self, owned: Holdings) -> bool:
        """Keep partitions whose owner still subscribes to their topic; returns whether any were dropped."""
        dropped = False
        for member_id, of_member in owned.items():
            for partition in of_member:
                if member_id in self._subscribers[partition.topic]:
                    self._give(partition, member_id)
                else:
                    dropped = True
        return dropped

    def fill(
        self, free: list[TopicPartition], is_far: Callable[[str, TopicPartition], bool]
    ) -> list[TopicPartition]:
        """Give each free partition to its lightest subscriber that is not far; return what has none."""
        left: list[TopicPartition] = []
        for topic, of_topic in groupby(free, key=attrgetter("topic")):
            queue = [(self.count[member_id], member_id) for member_id in self._subscribers[topic]]
            heapify(queue)
            for partition in of_topic:
                passed_over = []
                while queue and is_far(queue[0][1], partition):
                    passed_over.append(heappop(queue))
                if queue:
                    count, member_id = heappop(queue)
                    self._give(partition, member_id)
                    heappush(queue, (count + 1, member_id))
                else:
                    left.append(partition)
                for waiting in passed_over:
                    heappush(queue, waiting)
        return left

    def fixed_members(self) -> frozenset[str]:
        """Members that have every partition they can get, none of which another member could get."""
        could_hold = dict.fromkeys(self.count, 0)
        for topic, partition_count in Counter(each.topic for each in self.holder).items():
            for member_id in self._subscribers[topic]:
                could_hold[member_id] += partition_count
        could_give = {
            member_id for each, member_id in self.holder.items() if len(self._subscribers[each.topic]) > 1
        }
        return frozenset(
            member_id
            for member_id, count in self.count.items()
            if count == could_hold[member_id] and member_id not in could_give
        )

    def balance(self, movable: list[TopicPartition]) -> bool:
        """Move partitions from heavy to light members until no move helps; return whether any moved."""
        moved = False
        # Each pass but the last moves something, and a few are enough. The bound is for a dispute that
        # moves back could repeat for ever: nothing proves that there is none.
        for _ in range(len(movable) + len(self.count)):
            moves = sum(self._relieve(partition) for partition in movable)
            if not moves:
                break
            moved = True
        return moved

    def _relieve(self, partition: TopicPartition) -> bool:
        """Move this partition, or one that was moved the other way, if its owner has two more."""
        holder = self.holder[partition]
        target = self._earlier_owner.get(partition)
        # Kafka does not check whether the previous owner still subscribes, and may assign it a topic it left.
        if target not in self._subscribers[partition.topic] or not self._is_lighter(target, holder):
            target = self._lightest(partition.topic)
            if not self._is_lighter(target, holder):
                return False
        actual = self._moves.better_choice(partition, holder, target)
        source = self.holder[actual]
        self._moves.note(actual, source, target)
        self.count[source] -= 1
        self._give(actual, target)
        return True

    def _is_lighter(self, member_id: str, holder: str) -> bool:
        return self.count[member_id] + 1 < self.count[holder]

    def _lightest(self, topic: str) -> str:
        member_id = self._lightest_by_topic.get(topic)
        if member_id is None:
            member_id = min(self._subscribers[topic], key=lambda each: (self.count[each], each))
            self._lightest_by_topic[topic] = member_id
        return member_id

    def _give(self, partition: TopicPartition, member_id: str) -> None:
        self.holder[partition] = member_id
        self.count[member_id] += 1
        self._lightest_by_topic.clear()


def _unfairness(count: Mapping[str, int], fixed: frozenset[str]) -> int:
    """The sum of all differences between two members' counts."""
    counts = sorted(number for member_id, number in count.items() if member_id not in fixed)
    # In ascending order the n-th of N counts is added n times and subtracted N - 1 - n times.
    return sum(number * (2 * index + 1 - len(counts)) for index, number in enumerate(counts))
