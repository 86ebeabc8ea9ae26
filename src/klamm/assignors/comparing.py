"""Assignments of several assignors side by side, before and after members leave or join; without a broker."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from klamm.assignors.base import (
    COOPERATIVE,
    Assignor,
    ClusterView,
    GroupMetadata,
    GroupView,
    MemberSubscription,
    PartitionView,
)
from klamm.assignors.registry import BUILT_IN as OF_CLIENTS
from klamm.assignors.registry import load_assignors
from klamm.assignors.server.model import GroupAssignor, GroupSpec, MemberSpec, TopicSpec
from klamm.assignors.server.registry import BUILT_IN as OF_COORDINATORS
from klamm.assignors.server.registry import load_group_assignors
from klamm.protocol.types import TopicPartition

SERVER: Final = "server:"  # an assignor of the coordinator whose name one of the clients has, too
SERVER_NAMES: Final = tuple(name if name not in OF_CLIENTS else f"{SERVER}{name}" for name in OF_COORDINATORS)
_MOST_ROUNDS: Final = 5  # a cooperative assignor needs two

Shares = dict[str, tuple[TopicPartition, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Topics with their numbers of partitions, and the members of a group."""

    topics: Mapping[str, int]
    subscriptions: Mapping[str, frozenset[str]]  # by member, in the order in which they are shown
    racks: Mapping[str, str] = field(default_factory=dict)  # of members; leaders are in these by turns

    def cluster(self) -> ClusterView:
        racks = sorted(set(self.racks.values()))
        if not racks:
            return ClusterView.of_counts(self.topics)
        views = [PartitionView(frozenset({rack}), rack) for rack in racks]
        return ClusterView(
            {
                topic: tuple(views[number % len(views)] for number in range(count))
                for topic, count in self.topics.items()
            }
        )


@dataclass(frozen=True, slots=True)
class Result:
    """What one assignor does: who has what at first, and after the change."""

    assignor: str
    before: Shares
    after: Shares | None  # None: nothing changes
    rounds: int  # rebalances that the change takes

    @property
    def final(self) -> Shares:
        return self.before if self.after is None else self.after

    @property
    def moved(self) -> list[TopicPartition]:
        """Partitions that go from one member of the group to another, although their owner stays."""
        if self.after is None:
            return []
        return sorted(
            partition
            for member, held in self.before.items()
            if member in self.after
            for partition in held
            if partition not in self.after[member]
        )

    @property
    def unevenness(self) -> int:
        """The difference between the member with the most partitions and that with the least."""
        sizes = [len(held) for held in self.final.values()]
        return max(sizes) - min(sizes) if sizes else 0


def compare(
    names: Sequence[str], scenario: Scenario, leave: Collection[str] = (), join: Collection[str] = ()
) -> list[Result]:
    """What each assignor does at first, without those that join later, and after some left and they joined.

    Raises ConfigError for an unknown name.
    """
    first = [member for member in scenario.subscriptions if member not in join]
    then = [member for member in scenario.subscriptions if member not in leave]
    return [_result(name, scenario, first, None if not (leave or join) else then) for name in names]


def _result(name: str, scenario: Scenario, first: Sequence[str], then: Sequence[str] | None) -> Result:
    run = _Server(name, scenario) if _is_of_coordinator(name) else _Client(name, scenario)
    before, _ = run.rebalance(first)
    if then is None:
        return Result(name, before, None, 0)
    after, rounds = run.rebalance(then)
    return Result(name, before, after, rounds)


def _is_of_coordinator(name: str) -> bool:
    return name.startswith(SERVER) or (name in OF_COORDINATORS and name not in OF_CLIENTS)


class _Client:
    """A classic group: the leader assigns, and each member has an assignor with its own memory."""

    def __init__(self, name: str, scenario: Scenario) -> None:
        self._name = name
        self._scenario = scenario
        self._assignors: dict[str, Assignor] = {}
        self._shares: Shares = {}
        self._generation = 0
        self._assignor("")  # an unknown name is an error now

    def _assignor(self, member: str) -> Assignor:
        found = self._assignors.get(member)
        if found is None:
            config = {
                "client.rack": self._scenario.racks.get(member),
                "client.id": member or "member",
                "enable.auto.commit": False,
            }
            (found,) = load_assignors(self._name, config)
            self._assignors[member] = found
        return found

    def rebalance(self, members: Sequence[str]) -> tuple[Shares, int]:
        """Rebalance until nothing moves any more; the shares, and how often."""
        self._shares = {member: self._shares.get(member, ()) for member in members}
        for rounds in range(1, _MOST_ROUNDS + 1):
            before = self._shares
            self._once(members)
            is_cooperative = COOPERATIVE in self._assignor("").supported_protocols
            gave_up = any(set(before[member]) - set(self._shares[member]) for member in members)
            if not (is_cooperative and gave_up):
                return self._shares, rounds
        return self._shares, _MOST_ROUNDS

    def _once(self, members: Sequence[str]) -> None:
        scenario = self._scenario
        is_cooperative = COOPERATIVE in self._assignor("").supported_protocols
        group = GroupView(
            {
                member: MemberSubscription(
                    scenario.subscriptions[member],
                    self._assignor(member).subscription_user_data(scenario.subscriptions[member]),
                    self._shares[member] if is_cooperative else (),
                    self._generation if is_cooperative and self._generation else None,
                    scenario.racks.get(member),
                )
                for member in members
            }
        )
        self._generation += 1
        assigned = self._assignor(members[0]).assign(scenario.cluster(), group) if members else {}
        for member in members:
            metadata = GroupMetadata("compared", self._generation, member)
            self._assignor(member).on_assignment(assigned[member], metadata)
        self._shares = {member: tuple(assigned[member].partitions) for member in members}


class _Server:
    """A group of the consumer protocol: the coordinator assigns, and members move one by one."""

    def __init__(self, name: str, scenario: Scenario) -> None:
        self._scenario = scenario
        self._assignor: GroupAssignor
        (self._assignor,) = load_group_assignors(name.removeprefix(SERVER)).values()
        self._ids = {topic: number.to_bytes(16, "big") for number, topic in enumerate(scenario.topics, 1)}
        self._shares: Shares = {}

    def rebalance(self, members: Sequence[str]) -> tuple[Shares, int]:
        scenario, cluster = self._scenario, self._scenario.cluster()
        specs = {
            member: MemberSpec(
                topics=frozenset(self._ids[topic] for topic in scenario.subscriptions[member]),
                target=self._by_id(self._shares.get(member, ())),
                rack_id=scenario.racks.get(member),
            )
            for member in members
        }
        topics = {
            self._ids[topic]: TopicSpec(
                name=topic,
                partition_count=count,
                partitions=cluster.topics[topic] if self._assignor.uses_racks else (),
                lags=(None,) * count if self._assignor.uses_lag else (),
            )
            for topic, count in scenario.topics.items()
        }
        target = self._assignor.assign(GroupSpec(group_id="compared", members=specs, topics=topics))
        names = {topic_id: topic for topic, topic_id in self._ids.items()}
        self._shares = {
            member: tuple(
                sorted(
                    TopicPartition(names[topic_id], number)
                    for topic_id, numbers in target.get(member, {}).items()
                    for number in numbers
                )
            )
            for member in members
        }
        return self._shares, 1

    def _by_id(self, held: Sequence[TopicPartition]) -> dict[bytes, list[int]]:
        found: dict[bytes, list[int]] = {}
        for topic, number in held:
            found.setdefault(self._ids[topic], []).append(number)
        return found
