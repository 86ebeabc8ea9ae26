"""Groups, clusters and results in one line each.

Topics: `t:3 u:2`; with racks `t:4/ab` (one replica each, racks a, b, a, b) or `t:4/[ab]` (both racks each).
Members: `A(t u; t-0 t-1 @1; rack=a; instance=i1)`; `*` = all topics, `()` = none.
Results: `A t-0 t-1; B` gives B nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from klamm.assignors import (
    Assignment,
    Assignor,
    ClusterView,
    GroupView,
    MemberSubscription,
    PartitionView,
    TopicPartition,
)
from klamm.assignors.registry import load_assignors
from klamm.protocol.consumer_protocol import StickyMemory, encode_sticky_memory


def partitions(text: str) -> tuple[TopicPartition, ...]:
    pairs = (word.rsplit("-", 1) for word in text.split())
    return tuple(TopicPartition(topic, int(number)) for topic, number in pairs)


def a_cluster(text: str) -> ClusterView:
    topics = {}
    for word in text.split():
        topic, count, racks = re.fullmatch(r"(\w+):(\d+)(?:/(.+))?", word).groups()  # type: ignore[union-attr]  # a typo in a test row should end that test
        topics[topic] = [_located(racks, number) for number in range(int(count))]
    return ClusterView(topics)


def _located(racks: str | None, number: int) -> PartitionView:
    if racks is None:
        return PartitionView()
    if racks.startswith("["):
        return PartitionView(frozenset(racks[1:-1]), racks[1])
    rack = racks[number % len(racks)]
    return PartitionView(frozenset(rack), rack)


def a_group(text: str, cluster: ClusterView) -> GroupView:
    members = {}
    for name, inside in re.findall(r"([\w-]+)\(([^)]*)\)", text):
        topics, *rest = (part.strip() for part in inside.split(";"))
        members[name] = _member(topics, rest, cluster)
    return GroupView(members)


def _member(topics: str, rest: Iterable[str], cluster: ClusterView) -> MemberSubscription:
    member = MemberSubscription(frozenset(cluster.topics if topics == "*" else topics.split()))
    for part in rest:
        if part.startswith("rack="):
            member = replace(member, rack=part.removeprefix("rack="))
        elif part.startswith("instance="):
            member = replace(member, group_instance_id=part.removeprefix("instance="))
        else:
            owned, _, generation = part.partition("@")
            member = replace(
                member, owned=partitions(owned), generation=int(generation) if generation else None
            )
    return member


def the_result(text: str) -> dict[str, set[TopicPartition]]:
    pairs = (part.split(maxsplit=1) for part in text.split(";"))
    return {words[0]: set(partitions(words[1] if len(words) > 1 else "")) for words in pairs}


def an_assignor(name: str, config: Mapping[str, object] | None = None) -> Assignor:
    return load_assignors([name], config or {})[0]


def with_memory(group: GroupView, assignor: Assignor) -> GroupView:
    """Hand the members' memory over the way this assignor reads it."""
    if assignor.name != "sticky":
        return group
    return GroupView(
        {
            member_id: replace(
                member,
                owned=(),
                user_data=encode_sticky_memory(StickyMemory(member.owned, member.generation)),
            )
            for member_id, member in group.members.items()
        }
    )


def assigned(assignor: Assignor, cluster: ClusterView, group: GroupView) -> dict[str, Assignment]:
    return assignor.assign(cluster, with_memory(group, assignor))


def as_sets(assignments: Mapping[str, Assignment]) -> dict[str, set[TopicPartition]]:
    return {member_id: set(given.partitions) for member_id, given in assignments.items()}


def after(group: GroupView, assignments: Mapping[str, Assignment]) -> GroupView:
    """The same group when everybody took its assignment: one generation later."""
    generation = 1 + max((member.generation or 0 for member in group.members.values()), default=0)
    return GroupView(
        {
            member_id: replace(member, owned=assignments[member_id].partitions, generation=generation)
            for member_id, member in group.members.items()
        }
    )
