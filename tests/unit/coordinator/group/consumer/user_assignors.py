"""Assignors as users write them, good and bad; a test names them in `group.consumer.assignors`."""

from __future__ import annotations

from threading import Event
from typing import Any, Final

from klamm.assignors.server import GroupAssignor, GroupSpec, Target
from klamm.coordinator.group.config import GroupConfig


class FirstTakesAll(GroupAssignor):
    """Works."""

    name = "first"

    def assign(self, group: GroupSpec) -> Target:
        share = {topic_id: range(topic.partition_count) for topic_id, topic in group.topics.items()}
        return {min(group.members): share}


class Raises(GroupAssignor):
    """Fails."""

    name = "raises"

    def assign(self, group: GroupSpec) -> Target:
        raise KeyError("weight")


class RaisesAtOnce(Raises):
    """Fails, where the coordinator waits for it."""

    name = "raises-at-once"
    takes_bounded_time = True


class Rubbish(GroupAssignor):
    """Gives every partition to everybody."""

    name = "rubbish"

    def assign(self, group: GroupSpec) -> Target:
        share = {topic_id: range(topic.partition_count) for topic_id, topic in group.topics.items()}
        return dict.fromkeys(group.members, share)


class Hangs(GroupAssignor):
    """Computes for ever."""

    name = "hangs"

    def assign(self, group: GroupSpec) -> Target:
        while True:
            pass


class Waits(GroupAssignor):
    """Waits for something that a test gives, whatever is raised meanwhile."""

    name = "waits"
    may_go_on: Event = Event()

    def assign(self, group: GroupSpec) -> Target:
        self.may_go_on.wait()
        return {}


class ByLag(GroupAssignor):
    """Remembers the lags that it was told."""

    name = "by-lag"
    uses_lag = True
    told: Any = None

    def assign(self, group: GroupSpec) -> Target:
        type(self).told = {topic.name: list(topic.lags) for topic in group.topics.values()}
        return {}


ALL: Final = (FirstTakesAll, Raises, RaisesAtOnce, Rubbish, Hangs, Waits, ByLag)
PATHS: Final = tuple(f"{__name__}:{each.__name__}" for each in ALL)
CONFIG: Final = GroupConfig(group_consumer_assignors=("uniform", "range", *PATHS))
