"""Decisions of a member of the cluster: pure functions of the image and of time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from klamm.broker.cluster.placement import plan_balance, plan_take_over
from klamm.storage.cluster import BrokerRegistration, BrokerState, LeaderChange, TopicState

QUIET_MS: Final = 10_000  # after a broker has come or gone, before partitions are moved for balance
RETRY_BALANCE_MS: Final = 1000  # after a check that started moves
_RENEWALS_TO_JUDGE: Final = 2

Brokers = Mapping[int, BrokerRegistration]


def running_ids(brokers: Brokers, *, without: Collection[int] = ()) -> set[int]:
    """The brokers that may be given partitions."""
    return {
        each.broker_id
        for each in brokers.values()
        if each.state is BrokerState.RUNNING and each.broker_id not in without
    }


def to_be_judged(brokers: Brokers, me: int) -> list[BrokerRegistration]:
    """The other brokers that should be alive."""
    return [each for each in brokers.values() if each.broker_id != me and each.state is not BrokerState.GONE]


def leaderless(topics: Mapping[str, TopicState], brokers: Brokers) -> dict[int, list[LeaderChange]]:
    """New leaders for the partitions of brokers that are gone, or that no broker leads, by that leader.

    Such partitions remain when the last broker stops, or when no broker was running to take them over.
    """
    gone = {
        state.leader_id
        for topic in topics.values()
        for state in topic.partitions
        if state.leader_id not in brokers or brokers[state.leader_id].state is BrokerState.GONE
    }
    running = running_ids(brokers)
    plans = {leader_id: plan_take_over(topics, leader_id, running) for leader_id in sorted(gone)}
    return {leader_id: plan for leader_id, plan in plans.items() if plan}


@dataclass(slots=True)
class Renewals:
    """The renewals of this broker's lease: whether it may judge others.

    To a broker that was suspended, or whose store did not respond, all others seem silent. It judges silence
    only after two renewals of its own in a row were on time.
    """

    interval_ms: int
    _last_sent_ms: int = -1
    _on_time: int = 0

    def succeeded(self, sent_at_ms: int, now_ms: int) -> None:
        is_on_time = (
            now_ms - sent_at_ms <= self.interval_ms
            and self._last_sent_ms >= 0
            and sent_at_ms - self._last_sent_ms <= 2 * self.interval_ms
        )
        self._on_time = self._on_time + 1 if is_on_time else 0
        self._last_sent_ms = sent_at_ms

    def failed(self) -> None:
        self._on_time = 0

    def judge_silence(self, now_ms: int) -> bool:
        return self._on_time >= _RENEWALS_TO_JUDGE and now_ms - self._last_sent_ms <= 2 * self.interval_ms


class BalanceSchedule:
    """When this broker checks the balance: regularly, soon after moves, never soon after a broker changed."""

    def __init__(self, now_ms: int) -> None:
        self._due_ms = now_ms + QUIET_MS
        self._brokers: Collection[tuple[int, int, BrokerState]] = ()

    def brokers_are(self, brokers: Brokers, now_ms: int) -> None:
        """Note which brokers there are; a difference delays the next check."""
        present = {(each.broker_id, each.epoch, each.state) for each in brokers.values()}
        if present != self._brokers:
            self._brokers = present
            self._due_ms = now_ms + QUIET_MS

    def is_due(self, brokers: Brokers, me: int, now_ms: int) -> bool:
        """The running broker with the lowest id checks; two at once are harmless."""
        return now_ms >= self._due_ms and me == min(running_ids(brokers), default=None)

    def checked(self, now_ms: int, interval_ms: int, *, moves: bool) -> None:
        self._due_ms = now_ms + (min(RETRY_BALANCE_MS, interval_ms) if moves else interval_ms)


def balance(
    topics: Mapping[str, TopicState], brokers: Brokers
) -> tuple[list[LeaderChange], list[tuple[str, int, tuple[int, ...]]]]:
    """Moves towards balance, and new preferences for partitions that leave a preferred broker that runs.

    Nothing while earlier moves are under way.
    """
    if any(state.moving_to >= 0 for topic in topics.values() for state in topic.partitions):
        return [], []
    running = running_ids(brokers)
    moves = plan_balance(topics, running)
    preferences = []
    for move in moves:
        replicas = topics[move.topic].partitions[move.partition].replicas
        if replicas[0] in running and replicas[0] != move.next_leader_id:
            # Else the next check would move it back.
            others = [each for each in replicas if each != move.next_leader_id]
            preferences.append((move.topic, move.partition, (move.next_leader_id, *others)[: len(replicas)]))
    return moves, preferences


def moves_of(topics: Mapping[str, TopicState], me: int) -> list[LeaderChange]:
    """The announced moves of partitions that this broker leads."""
    return [
        LeaderChange(topic.name, state.partition, me, state.leader_epoch, state.moving_to)
        for topic in topics.values()
        for state in topic.partitions
        if state.leader_id == me and state.moving_to >= 0
    ]


def next_to_drain(
    topics: Mapping[str, TopicState], brokers: Brokers, me: int, at_once: int
) -> Sequence[LeaderChange]:
    """The next moves of a broker that stops; none when everything moves, or no other broker runs."""
    under_way = len(moves_of(topics, me))
    moving = {
        (topic.name, state.partition)
        for topic in topics.values()
        for state in topic.partitions
        if state.moving_to >= 0
    }
    plan = plan_take_over(topics, me, running_ids(brokers, without=(me,)))
    return [each for each in plan if (each.topic, each.partition) not in moving][
        : max(0, at_once - under_way)
    ]
