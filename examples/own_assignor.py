"""An assignor of your own: strong members get more partitions.

Run it: `python examples/own_assignor.py`. No broker is needed, since an assignor is a pure function of what
the leader sees. In a consumer you would write `partition_assignment_strategy=[WeightedAssignor]`, or
`"own_assignor:WeightedAssignor"`, and set `weight` per process.
"""

from __future__ import annotations

from collections.abc import Mapping

from klamm.assignors import (
    EAGER,
    ClusterView,
    GroupView,
    MemberSubscription,
    TopicAssignor,
    TopicPartition,
)
from klamm.assignors.checks import assign_and_check


class WeightedAssignor(TopicAssignor):
    """Each member names its weight; a member of weight 2 gets twice as much as one of weight 1."""

    name = "weighted"

    def __init__(self, weight: int = 1) -> None:
        self._weight = weight

    def subscription_user_data(self, topics: frozenset[str]) -> bytes | None:
        return self._weight.to_bytes(2, "big")

    def assign_partitions(
        self, partitions_per_topic: Mapping[str, int], members: Mapping[str, MemberSubscription]
    ) -> dict[str, list[TopicPartition]]:
        weights = {name: weight_of(member) for name, member in members.items()}
        given: dict[str, list[TopicPartition]] = {name: [] for name in members}
        for topic, count in partitions_per_topic.items():
            subscribers = [name for name, member in members.items() if topic in member.topics]
            for number in range(count):
                chosen = min(subscribers, key=lambda name: (len(given[name]) + 1) / weights[name])
                given[chosen].append(TopicPartition(topic, number))
        return given


def weight_of(member: MemberSubscription) -> int:
    """What a member said with its subscription; one that said nothing counts once."""
    return max(1, int.from_bytes(member.user_data or b"", "big"))


def main() -> None:
    """Share eight partitions between a big and a small machine, as the leader would."""
    topics = frozenset({"orders", "payments"})
    cluster = ClusterView.of_counts({"orders": 5, "payments": 3})
    group = GroupView(
        {
            "big": MemberSubscription(topics, WeightedAssignor(3).subscription_user_data(topics)),
            "small": MemberSubscription(topics, WeightedAssignor(1).subscription_user_data(topics)),
        }
    )
    checked = assign_and_check(WeightedAssignor(), EAGER, cluster, group)
    for member_id, assignment in checked.assignments.items():
        print(f"{member_id}: {' '.join(map(str, assignment.partitions))}")  # noqa: T201  an example shows its result


if __name__ == "__main__":
    main()
