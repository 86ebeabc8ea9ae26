"""Random groups for assignors: chains of rebalances, stale members, disputes, racks."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TypeAlias

from klamm.assignors import ClusterView, GroupView, MemberSubscription, PartitionView
from klamm.assignors.sticky import assign_sticky
from klamm.protocol.consumer_protocol import StickyMemory

MEMBER_NAMES = ("c1", "c10", "c2", "m-a", "m-b", "x", "Zoe", "consumer-1-0f3a")
TOPIC_NAMES = ("t", "u", "v", "orders", "a.b")
RACKS = ("a", "b", "c")


Situation: TypeAlias = tuple[ClusterView, GroupView]


def random_situation(
    chance: Random, *, equal: bool | None = None, with_racks: bool | None = None
) -> Situation:
    """A group that has lived through up to four rebalances, and now something changed again.

    `equal` subscriptions and racks are left to chance unless told.
    """
    if equal is None:
        equal = chance.random() < 0.5
    if with_racks is None:
        with_racks = chance.random() < 0.3
    cluster = _cluster(chance, with_racks)
    names = chance.sample(MEMBER_NAMES, chance.randint(1, 7))
    group = GroupView({name: _member(chance, cluster, with_racks) for name in names})
    for generation in range(1, chance.randint(1, 5)):
        if equal:
            group = _with_equal_topics(chance, cluster, group)
        group = _rebalanced(chance, cluster, group, generation)
        cluster, group = _changed(chance, cluster, group, with_racks)
    if chance.random() < 0.15:
        group = _with_disputes(chance, cluster, group)
    if equal:
        group = _with_equal_topics(chance, cluster, group)
    return cluster, group


def _cluster(chance: Random, with_racks: bool) -> ClusterView:
    topics = chance.sample(TOPIC_NAMES, chance.randint(1, len(TOPIC_NAMES)))
    return ClusterView({topic: _partitions(chance, chance.randint(1, 7), with_racks) for topic in topics})


def _partitions(chance: Random, count: int, with_racks: bool) -> tuple[PartitionView, ...]:
    if not with_racks:
        return (PartitionView(),) * count
    replicas = chance.randint(1, len(RACKS))
    racks = [chance.sample(RACKS, replicas) for _ in range(count)]
    return tuple(PartitionView(frozenset(each), each[0]) for each in racks)


def _member(chance: Random, cluster: ClusterView, with_racks: bool) -> MemberSubscription:
    return MemberSubscription(
        topics=_some_topics(chance, cluster),
        rack=chance.choice((None, *RACKS)) if with_racks else None,
        group_instance_id=f"i{chance.randint(0, 10**6)}" if chance.random() < 0.2 else None,
    )


def _some_topics(chance: Random, cluster: ClusterView) -> frozenset[str]:
    if chance.random() < 0.03:
        return frozenset()
    known = sorted(cluster.topics)
    topics = chance.sample(known, chance.randint(1, len(known)))
    return frozenset([*topics, "unknown"] if chance.random() < 0.05 else topics)


def _with_equal_topics(chance: Random, cluster: ClusterView, group: GroupView) -> GroupView:
    topics = _some_topics(chance, cluster)
    return GroupView({name: replace(member, topics=topics) for name, member in group.members.items()})


def _rebalanced(chance: Random, cluster: ClusterView, group: GroupView, generation: int) -> GroupView:
    memories = {name: StickyMemory(member.owned, member.generation) for name, member in group.members.items()}
    holdings, _ = assign_sticky(cluster, group, memories)
    return GroupView(
        {
            name: member
            if chance.random() < 0.1  # missed this rebalance: its claim is a generation old
            else replace(member, owned=tuple(sorted(holdings[name])), generation=generation)
            for name, member in group.members.items()
        }
    )


def _changed(
    chance: Random, cluster: ClusterView, group: GroupView, with_racks: bool
) -> tuple[ClusterView, GroupView]:
    members = dict(group.members)
    topics = dict(cluster.topics)
    if len(members) > 1 and chance.random() < 0.4:
        del members[chance.choice(sorted(members))]
    absent = sorted(set(MEMBER_NAMES) - set(members))
    if absent and chance.random() < 0.5:
        members[chance.choice(absent)] = _member(chance, cluster, with_racks)
    if chance.random() < 0.3:
        name = chance.choice(sorted(members))
        members[name] = replace(members[name], topics=_some_topics(chance, cluster))
    if chance.random() < 0.2:
        topic = chance.choice(sorted(topics))
        topics[topic] = (*topics[topic], *_partitions(chance, chance.randint(1, 4), with_racks))
    if chance.random() < 0.05:  # made anew with fewer partitions
        topic = chance.choice(sorted(topics))
        topics[topic] = topics[topic][:1]
    if len(topics) > 1 and chance.random() < 0.1:
        del topics[chance.choice(sorted(topics))]
    return ClusterView(topics), GroupView(members)


def _with_disputes(chance: Random, cluster: ClusterView, group: GroupView) -> GroupView:
    everything = [each for topic in sorted(cluster.topics) for each in cluster.partitions(topic)]
    members = dict(group.members)
    for name in sorted(members):
        if chance.random() < 0.5:
            claimed = chance.sample(everything, chance.randint(0, len(everything)))
            generation = chance.choice((None, 1, 2, 3))
            members[name] = replace(members[name], owned=tuple(sorted(claimed)), generation=generation)
    return GroupView(members)
