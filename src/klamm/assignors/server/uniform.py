"""`uniform`: even shares, and as little movement as possible. Kafka's default, result by result.

Kafka follows the order of its hash maps where it has a choice; klamm takes members by id and topics by name.
"""

from __future__ import annotations

from collections.abc import Iterator

from klamm.assignors.server.model import GroupAssignor, GroupSpec, Share, Target
from klamm.assignors.server.uniform_unequal import share_unequally


class UniformAssignor(GroupAssignor):
    """Sizes differ by at most one if all members subscribe to the same topics."""

    name = "uniform"
    takes_bounded_time = True

    def assign(self, group: GroupSpec) -> Target:
        subscriptions = {member.topics for member in group.members.values()}
        if len(subscriptions) > 1:
            return share_unequally(group)
        subscribed = frozenset[bytes]().union(*subscriptions)
        topic_ids = [topic_id for topic_id in group.topic_ids() if topic_id in subscribed]
        return _share_equally(group, topic_ids, sorted(group.members)) if topic_ids else {}


def existing(group: GroupSpec, topic_ids: list[bytes], share: Share) -> Iterator[tuple[bytes, list[int]]]:
    """What still exists of a share, in the order of `topic_ids`, partitions ascending."""
    for topic_id in topic_ids:
        if topic_id in share:
            count = group.topics[topic_id].partition_count
            kept = sorted(each for each in share[topic_id] if each < count)
            if kept:
                yield topic_id, kept


def _share_equally(group: GroupSpec, topic_ids: list[bytes], members: list[str]) -> Target:
    """Members keep what they have up to their quota; the rest is handed out in order, member by member."""
    count = sum(group.topics[topic_id].partition_count for topic_id in topic_ids)
    quota, extras = divmod(count, len(members))
    free = {topic_id: bytearray(b"\1") * group.topics[topic_id].partition_count for topic_id in topic_ids}
    target: dict[str, dict[bytes, list[int]]] = {}
    taken_away: list[tuple[bytes, int]] = []
    unfilled: list[tuple[dict[bytes, list[int]], int]] = []
    for index, member_id in enumerate(members):
        gets_extra = extras > 0
        room = quota + gets_extra
        share = target[member_id] = {}
        for topic_id, partitions in existing(group, topic_ids, group.members[member_id].target):
            for partition in partitions:
                free[topic_id][partition] = 0
            if room:
                share[topic_id] = partitions[:room]
            taken_away += ((topic_id, partition) for partition in partitions[room:])
            room = max(0, room - len(partitions))
        # One more than the quota is for those that have it already, as long as others are left to take it.
        if room and gets_extra and len(members) - index > extras:
            room -= 1
            gets_extra = False
        if room:
            unfilled.append((share, room))
        extras -= gets_extra
    rest = _never_given(topic_ids, free) + taken_away
    at = 0
    for share, room in unfilled:
        for topic_id, partition in rest[at : at + room]:
            share.setdefault(topic_id, []).append(partition)
        at += room
    return target


def _never_given(topic_ids: list[bytes], free: dict[bytes, bytearray]) -> list[tuple[bytes, int]]:
    return [
        (topic_id, partition)
        for topic_id in topic_ids
        for partition, is_free in enumerate(free[topic_id])
        if is_free
    ]
