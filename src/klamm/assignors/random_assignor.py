"""random: each partition to any of its subscribers. A demonstration, not a recommendation."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from klamm.assignors.base import (
    Assignment,
    Assignor,
    ClusterView,
    GroupView,
    Holdings,
    as_assignments,
)
from klamm.config import ConfigError

SEED_SETTING = "random.seed"


class RandomAssignor(Assignor):
    """Unbalanced, and everything moves every time; `random.seed` makes it repeatable."""

    name = "random"

    def __init__(self, seed: int | None = None) -> None:
        self._seed = seed

    def configure(self, config: Mapping[str, object]) -> None:
        seed = config.get(SEED_SETTING)
        if isinstance(seed, str) and seed.lstrip("-").isdecimal():
            seed = int(seed)
        if seed is not None and not isinstance(seed, int):
            raise ConfigError(SEED_SETTING, f"{SEED_SETTING} must be a whole number, not {seed!r}")
        if seed is not None:
            self._seed = seed

    def assign(self, cluster: ClusterView, group: GroupView) -> dict[str, Assignment]:
        # One generator per rebalance: the same seed and group give the same result on every leader.
        return as_assignments(group.members, assign_at_random(cluster, group, Random(self._seed)))


def assign_at_random(cluster: ClusterView, group: GroupView, chance: Random) -> Holdings:
    """Let chance pick a subscriber for each partition."""
    holdings: Holdings = {member_id: [] for member_id in group.members}
    for topic, subscribers in group.subscribers_by_topic(cluster).items():
        for partition in cluster.partitions(topic):
            holdings[chance.choice(subscribers)].append(partition)
    return holdings
