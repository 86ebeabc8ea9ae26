"""`range`: each topic in runs of consecutive partitions, so that equal topics are read side by side."""

from __future__ import annotations

from klamm.assignors.server.model import GroupAssignor, GroupSpec, Target


class RangeGroupAssignor(GroupAssignor):
    """Kafka's `range`, result by result. It does not look at the last target: a change moves much."""

    name = "range"
    takes_bounded_time = True

    def assign(self, group: GroupSpec) -> Target:
        subscribers = {topic_id: len(members) for topic_id, members in group.subscribers().items()}
        given = dict.fromkeys(subscribers, 0)  # partitions of each topic handed out so far
        seen = dict.fromkeys(subscribers, 0)  # its subscribers that have had their run
        target: dict[str, dict[bytes, range]] = {}
        for member_id in _in_order(group):
            share = target[member_id] = {}
            for topic_id in group.members[member_id].topics:
                quota, extras = divmod(group.topics[topic_id].partition_count, subscribers[topic_id])
                start = given[topic_id]
                given[topic_id] = start + quota + (seen[topic_id] < extras)
                seen[topic_id] += 1
                if start < given[topic_id]:
                    share[topic_id] = range(start, given[topic_id])
        return target


def _in_order(group: GroupSpec) -> list[str]:
    """Member ids: static members by instance id, then dynamic ones by member id."""

    def rank(member_id: str) -> tuple[bool, str]:
        instance_id = group.members[member_id].instance_id
        return (instance_id is None, member_id if instance_id is None else instance_id)

    return sorted(group.members, key=rank)
