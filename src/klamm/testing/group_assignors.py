"""Testing an assignor of your own that the coordinator runs: random groups, and what must hold for each.

    class TestByLag(GroupAssignorProperties):
        def make_assignor(self) -> GroupAssignor:
            return ByLagAssignor()

pytest runs the tests it inherits. Each failure names the seed of its group, which
`random_group(Random(seed), assignor, with_racks=seed % 2 == 1)` makes again.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import ClassVar

from klamm.assignors.server import (
    AssignorFailure,
    CheckedTarget,
    GroupAssignor,
    GroupSpec,
    MemberSpec,
    PartitionView,
    TopicSpec,
    compute_target,
)

MEMBER_NAMES = ("c1", "c10", "c2", "m-a", "m-b", "x", "Zoe", "consumer-1-0f3a", "p", "q")
TOPIC_NAMES = ("t", "u", "v", "orders", "a.b", "payments", "z")
RACKS = ("a", "b", "c")


class GroupAssignorProperties(ABC):
    """What must hold for every assignor of the coordinator; derive from it beside your own tests."""

    groups: ClassVar[int] = 60  # random groups for each test
    large_group: ClassVar[tuple[int, int]] = (1_000, 10_000)  # members and partitions
    limit_s: ClassVar[float] = 2.0  # for the large group; klamm's own take a fortieth to a quarter of it
    assigns_everything: ClassVar[bool] = True  # whether each partition with a subscriber must have an owner

    @abstractmethod
    def make_assignor(self) -> GroupAssignor:
        """A new instance of the assignor under test."""

    def test_it_gives_each_partition_once_and_only_to_subscribers(self) -> None:
        for seed, group in self._random_groups():
            target = self._target(seed, group)
            if not self.assigns_everything:
                continue
            given = {(each, number) for share in target.values() for each in share for number in share[each]}
            missing = [
                f"{topic.name}-{number}"
                for topic_id in group.subscribers()
                for topic in (group.topics[topic_id],)
                for number in range(topic.partition_count)
                if (topic_id, number) not in given
            ]
            assert not missing, f"seed {seed}: {', '.join(missing)} have a subscriber and no owner"

    def test_it_gives_the_same_group_the_same_target(self) -> None:
        """From a new instance, and with members and topics in another order, as after a restart."""
        for seed, group in self._random_groups():
            reordered = replace(
                group,
                members=dict(reversed(list(group.members.items()))),
                topics=dict(reversed(list(group.topics.items()))),
            )
            first, second = self._target(seed, group), self._target(seed, reordered)
            assert first == second, f"seed {seed}: {first}, and after a restart {second}"

    def test_it_does_not_change_its_arguments(self) -> None:
        for seed, group in self._random_groups():
            before = repr(group)
            self._target(seed, group)
            assert repr(group) == before, f"seed {seed}: the assignor changed the group it was given"

    def test_it_moves_nothing_when_nothing_has_changed(self) -> None:
        """After two computations at most, so that a group comes to rest."""
        for seed, group in self._random_groups():
            first = with_target(group, self._target(seed, group))
            second = with_target(first, self._target(seed, first))
            third = self._target(seed, second)
            assert third == self._target(seed, first), f"seed {seed}: partitions move for ever"

    def test_it_finishes_a_large_group_in_time(self) -> None:
        members, partitions = self.large_group
        group = large_group(members, partitions)
        started_s = time.perf_counter()
        self._target(0, group)
        took_s = time.perf_counter() - started_s
        assert took_s < self.limit_s, f"{members} members and {partitions} partitions took {took_s:.1f} s"

    def _random_groups(self) -> Iterator[tuple[int, GroupSpec]]:
        for seed in range(self.groups):
            yield seed, random_group(Random(seed), self.make_assignor(), with_racks=seed % 2 == 1)

    def _target(self, seed: int, group: GroupSpec) -> CheckedTarget:
        target = compute_target(self.make_assignor(), group)
        assert not isinstance(target, AssignorFailure), f"seed {seed}: {target.reason}"
        return target


def topic_id(name: str) -> bytes:
    """The id of a topic in these groups."""
    return name.encode().rjust(16, b"\0")


def with_target(group: GroupSpec, target: CheckedTarget) -> GroupSpec:
    """The same group, with this as its last target."""
    members = {each: replace(member, target=target[each]) for each, member in group.members.items()}
    return replace(group, members=members)


def large_group(members: int, partitions: int) -> GroupSpec:
    """A new group whose members all subscribe to ten topics."""
    topics = {
        topic_id(f"topic-{number}"): TopicSpec(
            name=f"topic-{number}",
            partition_count=partitions // 10,
            partitions=tuple(_view(RACKS[each % len(RACKS)]) for each in range(partitions // 10)),
            lags=tuple(range(partitions // 10)),
        )
        for number in range(10)
    }
    every = frozenset(topics)
    return GroupSpec(
        group_id="large",
        members={
            f"member-{number:05}": MemberSpec(topics=every, rack_id=RACKS[number % len(RACKS)])
            for number in range(members)
        },
        topics=topics,
    )


def random_group(
    chance: Random, assignor: GroupAssignor, *, equal: bool | None = None, with_racks: bool = False
) -> GroupSpec:
    """A group that has lived through up to four computations, and now something changed again.

    `equal` subscriptions are left to chance unless told.
    """
    if equal is None:
        equal = chance.random() < 0.5
    racks = {name: [chance.choice(RACKS) for _ in range(40)] for name in TOPIC_NAMES} if with_racks else {}
    counts = {name: chance.randint(1, 9) for name in chance.sample(TOPIC_NAMES, chance.randint(1, 6))}
    names = chance.sample(MEMBER_NAMES, chance.randint(1, 8))
    members = {name: _random_member(chance, counts, with_racks) for name in names}
    for _ in range(chance.randint(0, 4)):
        if equal:
            members = _with_equal_topics(chance, counts, members)
        group = _spec(chance, counts, members, racks)
        target = compute_target(assignor, group)
        assert not isinstance(target, AssignorFailure), target.reason
        members = dict(with_target(group, target).members)
        _change(chance, counts, members, with_racks)
    if equal:
        members = _with_equal_topics(chance, counts, members)
    return _spec(chance, counts, members, racks)


def _spec(
    chance: Random,
    counts: Mapping[str, int],
    members: Mapping[str, MemberSpec],
    racks: Mapping[str, Sequence[str]],
) -> GroupSpec:
    return GroupSpec(
        group_id="g",
        members=dict(sorted(members.items())),
        topics={
            topic_id(name): TopicSpec(
                name=name,
                partition_count=count,
                partitions=tuple(map(_view, racks[name][:count])) if racks else (),
                lags=tuple(chance.choice((None, 0, 5, 1_000)) for _ in range(count)),
            )
            for name, count in sorted(counts.items())
        },
    )


def _view(rack: str) -> PartitionView:
    return PartitionView(frozenset((rack,)), rack)


def _random_member(chance: Random, counts: Mapping[str, int], with_racks: bool) -> MemberSpec:
    return MemberSpec(
        topics=_some_topics(chance, counts),
        instance_id=f"i{chance.randint(0, 10**6)}" if chance.random() < 0.2 else None,
        rack_id=chance.choice((None, *RACKS)) if with_racks else None,
    )


def _some_topics(chance: Random, counts: Mapping[str, int]) -> frozenset[bytes]:
    if chance.random() < 0.05:
        return frozenset()
    return frozenset(map(topic_id, chance.sample(sorted(counts), chance.randint(1, len(counts)))))


def _with_equal_topics(
    chance: Random, counts: Mapping[str, int], members: Mapping[str, MemberSpec]
) -> dict[str, MemberSpec]:
    topics = _some_topics(chance, counts)
    return {name: replace(member, topics=topics) for name, member in members.items()}


def _change(chance: Random, counts: dict[str, int], members: dict[str, MemberSpec], with_racks: bool) -> None:
    if len(members) > 1 and chance.random() < 0.4:
        del members[chance.choice(sorted(members))]
    absent = sorted(set(MEMBER_NAMES) - set(members))
    if absent and chance.random() < 0.6:
        members[chance.choice(absent)] = _random_member(chance, counts, with_racks)
    if chance.random() < 0.3:
        name = chance.choice(sorted(members))
        members[name] = replace(members[name], topics=_some_topics(chance, counts))
    if chance.random() < 0.3:
        counts[chance.choice(sorted(counts))] += chance.randint(1, 4)
    if len(counts) > 1 and chance.random() < 0.1:
        gone = chance.choice(sorted(counts))
        del counts[gone]
        for name, member in members.items():
            members[name] = replace(
                member,
                topics=member.topics - {topic_id(gone)},
                target={each: share for each, share in member.target.items() if each != topic_id(gone)},
            )
