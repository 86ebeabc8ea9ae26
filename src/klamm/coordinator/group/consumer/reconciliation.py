"""One member's next step towards its target. It waits for nothing but what others still have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from klamm.coordinator.group.consumer.remembered import (
    CurrentValue,
    Holding,
    Partitions,
    ReconciliationState,
)

Owned = Mapping[bytes, Collection[int]]  # what a member reports


class Goal(NamedTuple):
    """Where a member goes."""

    target: Partitions
    epoch: int
    is_read: Callable[[bytes], bool]  # whether the member subscribes to a topic, and it exists
    is_free: Callable[[bytes, int], bool]  # whether no other member has a partition


def owned_partitions(reported: Collection[tuple[bytes, Collection[int]]]) -> Owned:
    """What a member reports, by topic."""
    owned: dict[bytes, set[int]] = {}
    for topic_id, partitions in reported:
        owned.setdefault(topic_id, set()).update(partitions)
    return owned


def is_within(owned: Owned, held: Holding) -> bool:
    """Whether all that is owned is held."""
    return all(
        partition in held.get(topic_id, ())
        for topic_id, partitions in owned.items()
        for partition in partitions
    )


def next_current(current: CurrentValue, goal: Goal, owned: Owned | None) -> CurrentValue:
    """The member after it has reported what it owns; None if it did not say."""
    if current.state == ReconciliationState.UNREVOKED and _owns(owned, current.pending):
        return _with_dropped_topics(current, goal)
    if current.state == ReconciliationState.UNKNOWN and (owned is None or any(owned.values())):
        return current
    target = {topic_id: each for topic_id, each in goal.target.items() if goal.is_read(topic_id)}
    keep: dict[bytes, dict[int, int]] = {}
    revoke: dict[bytes, dict[int, int]] = {}
    for topic_id, partitions in current.assigned.items():
        wanted = frozenset(target.get(topic_id, ()))
        for partition, epoch in partitions.items():
            (keep if partition in wanted else revoke).setdefault(topic_id, {})[partition] = epoch
    if revoke and _owns(owned, revoke):
        return CurrentValue(current.epoch, current.epoch, ReconciliationState.UNREVOKED, keep, revoke)
    return _granted(current, goal, target, keep)


def _granted(
    current: CurrentValue, goal: Goal, target: Partitions, keep: dict[bytes, dict[int, int]]
) -> CurrentValue:
    """It has nothing to give up: it gets what is free, and is at the epoch of the target."""
    is_waiting = False
    for topic_id, partitions in target.items():
        kept = keep.get(topic_id, {})
        own = current.pending.get(topic_id, {})
        granted = dict(kept)
        for partition in partitions:
            if partition in kept:
                continue
            if partition in own or goal.is_free(topic_id, partition):
                granted[partition] = goal.epoch
            else:
                is_waiting = True
        if granted:
            keep[topic_id] = {partition: granted[partition] for partition in sorted(granted)}
    state = ReconciliationState.UNRELEASED if is_waiting else ReconciliationState.STABLE
    # A member that is heard of in this epoch again has had the answer with it: the one before counts no more.
    after = CurrentValue(goal.epoch, current.epoch, state, keep)
    return current if after == current else after


def _with_dropped_topics(current: CurrentValue, goal: Goal) -> CurrentValue:
    """It still has to give up something; what it has unsubscribed meanwhile, too."""
    dropped = {topic_id: held for topic_id, held in current.assigned.items() if not goal.is_read(topic_id)}
    if not dropped:
        return current
    kept = {topic_id: held for topic_id, held in current.assigned.items() if topic_id not in dropped}
    pending = {topic_id: dict(held) for topic_id, held in current.pending.items()}
    for topic_id, held in dropped.items():
        pending.setdefault(topic_id, {}).update(held)
    return current._replace(assigned=kept, pending=pending)


def _owns(owned: Owned | None, held: Holding) -> bool:
    """Whether a member still has some of these. One that does not say what it owns has them."""
    if owned is None:
        return any(held.values())
    return any(
        not held[topic_id].keys().isdisjoint(owned[topic_id]) for topic_id in held if topic_id in owned
    )
