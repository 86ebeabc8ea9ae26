"""An assignor that the group coordinator runs: it weighs partitions by their lag.

`group.consumer.assignors=uniform,lag_assignor:ByLagAssignor` makes it known to a broker that can import it,
and `group.remote.assignor=by-lag` asks for it, in a consumer of any language. A member that has fallen behind
on one partition gets few others. Partitions stay where they are as long as the heaviest member has less than
twice the work of the lightest: moving one costs more than a little imbalance.

Run this file to see two topics shared among three members, without a broker.
"""

from __future__ import annotations

from heapq import heapreplace

from klamm.assignors.server import (
    AssignorFailure,
    GroupAssignor,
    GroupSpec,
    MemberSpec,
    Target,
    TopicSpec,
    compute_target,
)

IDLE_WEIGHT = 100  # what a partition without lag counts, in records: it is read too
TOLERATED = 2.0


class ByLagAssignor(GroupAssignor):
    """Shares work, measured in records that wait, in place of partitions."""

    name = "by-lag"
    uses_lag = True

    def assign(self, group: GroupSpec) -> Target:
        weights = {
            (topic_id, partition): IDLE_WEIGHT + (_lag(group.topics[topic_id], partition) or 0)
            for topic_id in group.topic_ids()
            for partition in range(group.topics[topic_id].partition_count)
        }
        kept = self._keep(group)
        shared = self._share(group, weights, kept)
        if _imbalance(shared, weights) <= TOLERATED or not kept:
            return _as_target(shared)
        return _as_target(self._share(group, weights, {}))

    def _keep(self, group: GroupSpec) -> dict[tuple[bytes, int], str]:
        return {
            (topic_id, partition): member_id
            for member_id in sorted(group.members)
            for topic_id, partitions in group.members[member_id].target.items()
            if topic_id in group.members[member_id].topics
            for partition in partitions
        }

    def _share(
        self, group: GroupSpec, weights: dict[tuple[bytes, int], int], kept: dict[tuple[bytes, int], str]
    ) -> dict[str, list[tuple[bytes, int]]]:
        """The heaviest partition first, each to its lightest subscriber."""
        shares: dict[str, list[tuple[bytes, int]]] = {member_id: [] for member_id in sorted(group.members)}
        work = dict.fromkeys(shares, 0)
        lightest = {
            topic_id: [(0, member_id) for member_id in members]
            for topic_id, members in group.subscribers().items()
        }
        names = {topic_id: topic.name for topic_id, topic in group.topics.items()}
        order = sorted(weights, key=lambda each: (each not in kept, -weights[each], names[each[0]], each[1]))
        for place in order:
            heap = lightest.get(place[0])
            if heap is None:  # nobody subscribes to it any more
                continue
            member_id = kept.get(place) or _lightest(heap, work)
            shares[member_id].append(place)
            work[member_id] += weights[place]
        return shares


def _lightest(heap: list[tuple[int, str]], work: dict[str, int]) -> str:
    """The subscriber with least work; the heap knows the work from when it last looked."""
    while True:
        known, member_id = heap[0]
        if known == work[member_id]:
            return member_id
        heapreplace(heap, (work[member_id], member_id))


def _lag(topic: TopicSpec, partition: int) -> int | None:
    return topic.lags[partition] if topic.lags else None


def _imbalance(shares: dict[str, list[tuple[bytes, int]]], weights: dict[tuple[bytes, int], int]) -> float:
    work = [sum(weights[place] for place in share) for share in shares.values()]
    return max(work) / max(1, min(work))


def _as_target(shares: dict[str, list[tuple[bytes, int]]]) -> Target:
    target: dict[str, dict[bytes, list[int]]] = {member_id: {} for member_id in shares}
    for member_id, share in shares.items():
        for topic_id, partition in share:
            target[member_id].setdefault(topic_id, []).append(partition)
    return target


def main() -> None:
    orders, refunds = b"orders".rjust(16), b"refunds".rjust(16)
    group = GroupSpec(
        group_id="billing",
        members={name: MemberSpec(topics=frozenset((orders, refunds))) for name in ("anna", "bert", "carla")},
        topics={
            orders: TopicSpec(name="orders", partition_count=4, lags=(90_000, 1_000, 2_000, None)),
            refunds: TopicSpec(name="refunds", partition_count=2, lags=(0, 30_000)),
        },
    )
    target = compute_target(ByLagAssignor(), group)
    assert not isinstance(target, AssignorFailure), target
    for member_id, share in target.items():
        names = {each: group.topics[each].name for each in share}
        given = sorted(f"{names[each]}-{number}" for each, numbers in share.items() for number in numbers)
        print(f"{member_id}: {', '.join(given)}")  # noqa: T201 - what this example shows


if __name__ == "__main__":
    main()
