"""Which broker leads which partition: plans for new partitions, for a dead broker's, and for balance.

Logs are in a store that all brokers share, so a move copies nothing. Functions here change nothing: a plan is
a list of leaders that the cluster store then accepts or refuses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from random import Random
from typing import Final, TypeAlias

from klamm.broker.cluster.topic_names import is_internal
from klamm.storage.cluster import LeaderChange, PartitionRegistration, TopicState

Racks: TypeAlias = Mapping[int, str | None]  # of brokers by id
MOST_MOVES: Final = 10  # at a time


def leader_counts(topics: Iterable[TopicState], broker_ids: Collection[int]) -> dict[int, int]:
    """How many partitions each of these brokers leads."""
    counts = dict.fromkeys(broker_ids, 0)
    for topic in topics:
        for state in topic.partitions:
            if state.leader_id in counts:
                counts[state.leader_id] += 1
    return counts


def place_partitions(
    racks: Racks,
    counts: Mapping[int, int],
    partitions: int,
    factor: int,
    random: Random,
    *,
    fenced: Sequence[int] = (),
) -> list[tuple[int, ...]]:
    """The preferred brokers of each new partition of a topic, its leader first.

    Leaders go round a ring of brokers that alternates racks, beginning with the broker that leads the fewest
    partitions: each broker leads as many of the topic as any other, or one more. Behind its leader a list has
    the next brokers in the ring, those of racks without a member first, and brokers that do not run only if
    the factor needs them.
    """
    ring = _ring(racks)
    fewest = min(counts[broker_id] for broker_id in ring)
    start = random.choice([place for place, broker_id in enumerate(ring) if counts[broker_id] == fewest])
    running = min(factor, len(ring))
    return [
        (*_preferred(ring, racks, (start + index) % len(ring), running), *fenced[: factor - running])
        for index in range(partitions)
    ]


def _ring(racks: Racks) -> list[int]:
    by_rack: dict[str | None, list[int]] = {}
    for broker_id in sorted(racks):
        by_rack.setdefault(racks[broker_id], []).append(broker_id)
    rows = sorted(by_rack.values(), key=lambda row: (-len(row), row))
    return [row[turn] for turn in range(len(rows[0])) for row in rows if turn < len(row)]


def _preferred(ring: Sequence[int], racks: Racks, first: int, factor: int) -> tuple[int, ...]:
    in_order = [ring[(first + step) % len(ring)] for step in range(len(ring))]
    chosen = in_order[:1]
    while len(chosen) < factor:
        used = {racks[broker_id] for broker_id in chosen}
        left = [broker_id for broker_id in in_order if broker_id not in chosen]
        chosen.append(next((each for each in left if racks[each] not in used), left[0]))
    return tuple(chosen)


def plan_take_over(
    topics: Mapping[str, TopicState], gone_id: int, running: Collection[int]
) -> list[LeaderChange]:
    """The next leader of each partition of a dead broker, or of one that stops. Others do not move.

    Of the running brokers that a partition prefers, or of all if none of those runs: the one that leads the
    fewest partitions of the topic, then the fewest of all, then the most preferred.
    """
    overall = leader_counts(topics.values(), running)
    changes: list[LeaderChange] = []
    for name in sorted(topics):
        in_topic = leader_counts([topics[name]], running)
        for state in topics[name].partitions:
            if state.leader_id != gone_id:
                continue
            candidates = [each for each in state.replicas if each in overall] or sorted(overall)
            if not candidates:
                return []
            chosen = min(candidates, key=lambda each: (in_topic[each], overall[each]))
            in_topic[chosen] += 1
            overall[chosen] += 1
            changes.append(_change(name, state, chosen))
    return changes


def plan_balance(topics: Mapping[str, TopicState], running: Collection[int]) -> list[LeaderChange]:
    """Moves towards balance, at most `MOST_MOVES`: first home, then from the fullest to the emptiest broker.

    A partition goes home to its most preferred broker unless that makes the counts less equal.
    """
    counts = leader_counts(topics.values(), running)
    leaders = {
        (name, state.partition): state
        for name in sorted(topics, key=lambda each: (is_internal(each), each))
        for state in topics[name].partitions
        if state.leader_id in counts and state.moving_to < 0
    }
    moves: list[LeaderChange] = []

    def move(name: str, state: PartitionRegistration, to: int) -> None:
        counts[state.leader_id] -= 1
        counts[to] += 1
        del leaders[name, state.partition]
        moves.append(_change(name, state, to))

    for (name, _), state in list(leaders.items()):
        home = state.replicas[0]
        if len(moves) < MOST_MOVES and home in counts and home != state.leader_id:
            spread_before = max(counts.values()) - min(counts.values())
            after = counts | {state.leader_id: counts[state.leader_id] - 1, home: counts[home] + 1}
            if max(after.values()) - min(after.values()) <= spread_before:
                move(name, state, home)
    while len(moves) < MOST_MOVES and counts and max(counts.values()) - min(counts.values()) > 1:
        fullest = min(counts, key=lambda each: (-counts[each], each))
        emptiest = min(counts, key=lambda each: (counts[each], each))
        candidate = _from_widest_topic(leaders, fullest, emptiest)
        if candidate is None:
            break
        move(*candidate, emptiest)
    return moves


def _from_widest_topic(
    leaders: Mapping[tuple[str, int], PartitionRegistration], fullest: int, emptiest: int
) -> tuple[str, PartitionRegistration] | None:
    """A partition of the fullest broker: of the topic in which it leads most more than the emptiest does."""
    led: Counter[str] = Counter()
    for (name, _), state in leaders.items():
        led[name] += (state.leader_id == fullest) - (state.leader_id == emptiest)
    candidates = [(name, state) for (name, _), state in leaders.items() if state.leader_id == fullest]
    return min(
        candidates,
        key=lambda each: (is_internal(each[0]), -led[each[0]], each[0], each[1].partition),
        default=None,
    )


def _change(name: str, state: PartitionRegistration, to: int) -> LeaderChange:
    return LeaderChange(name, state.partition, state.leader_id, state.leader_epoch, to)
