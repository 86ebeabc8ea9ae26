"""An assignor as a user would write one; tests load it by its path."""

from __future__ import annotations

from collections.abc import Mapping

from klamm.assignors import MemberSubscription, TopicAssignor, TopicPartition


class WeightedAssignor(TopicAssignor):
    """Members say how strong they are, and get partitions accordingly."""

    name = "weighted"

    def __init__(self, weight: int = 1) -> None:
        self._weight = weight

    def configure(self, config: Mapping[str, object]) -> None:
        self._weight = int(str(config.get("weight", self._weight)))

    def subscription_user_data(self, topics: frozenset[str]) -> bytes | None:
        return bytes([self._weight])

    def assign_partitions(
        self, partitions_per_topic: Mapping[str, int], members: Mapping[str, MemberSubscription]
    ) -> dict[str, list[TopicPartition]]:
        weights = {name: (member.user_data or b"\x01")[0] for name, member in members.items()}
        given: dict[str, list[TopicPartition]] = {name: [] for name in members}
        for topic, count in partitions_per_topic.items():
            subscribers = [name for name, member in members.items() if topic in member.topics]
            for number in range(count):
                lightest = min(subscribers, key=lambda name: len(given[name]) / weights[name])
                given[lightest].append(TopicPartition(topic, number))
        return given


class NamelessAssignor(WeightedAssignor):
    """Forgot the name."""

    name = ""


class HalfAssignor(TopicAssignor):
    """Forgot to assign."""

    name = "half"


NOT_AN_ASSIGNOR = object()
