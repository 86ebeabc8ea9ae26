"""The input and output of an assignor that the group coordinator runs, and its base class.

The members of a group of the consumer protocol do not assign. The coordinator calls the assignor that most
of them ask for, whenever subscriptions or topics have changed, and the members move to the target one by one.
The assignor is a pure function: it serves clients in any language, and its tests need no broker.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from klamm.assignors.base import PartitionView

Share: TypeAlias = Mapping[bytes, Collection[int]]  # topic id -> partitions
Target: TypeAlias = Mapping[str, Share]  # member id -> its share; a member left out gets nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """One topic that exists and has a subscriber."""

    name: str
    partition_count: int
    # One view for each partition, if the assignor uses_racks; otherwise empty.
    partitions: Sequence[PartitionView] = ()
    # Records between the committed offset and the end of each partition, if the assignor uses_lag; None where
    # the broker does not know it. Otherwise empty.
    lags: Sequence[int | None] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpec:
    """One member, of whichever client and protocol."""

    topics: frozenset[bytes] = (
        frozenset()
    )  # ids of what it subscribes to by name or pattern, as far as it exists
    target: Share = field(
        default_factory=dict
    )  # what the last target gave it; partitions may have gone since
    instance_id: str | None = None
    rack_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """A group as its assignor sees it. Nothing in it changes while the assignor runs."""

    group_id: str
    members: Mapping[str, MemberSpec]
    topics: Mapping[bytes, TopicSpec]

    def subscribers(self) -> dict[bytes, list[str]]:
        """The members that subscribe to each topic, sorted by id; topics are sorted by name."""
        found: dict[bytes, list[str]] = {topic_id: [] for topic_id in self.topic_ids()}
        for member_id in sorted(self.members):
            for topic_id in self.members[member_id].topics:
                found[topic_id].append(member_id)
        return {topic_id: members for topic_id, members in found.items() if members}

    def topic_ids(self) -> list[bytes]:
        """The ids of all topics, sorted by name."""
        return sorted(self.topics, key=lambda topic_id: self.topics[topic_id].name)


class GroupAssignor(ABC):
    """One way to share the partitions of a group, run by the coordinator.

    `name` is what members ask for with `group.remote.assignor`. The result must follow from the arguments
    alone: the same group gets the same target after a restart and on another broker.
    """

    name: str
    uses_racks: bool = False  # whether TopicSpec.partitions must be filled
    uses_lag: bool = False  # whether TopicSpec.lags must be filled
    # Whether it takes time in proportion to the group, whatever the input: then the coordinator runs it at
    # once for small groups. Any other runs in a thread of its own, for a limited time.
    takes_bounded_time: bool = False

    @abstractmethod
    def assign(self, group: GroupSpec) -> Target:
        """What each member should own: each partition once, to a member that subscribes to its topic."""
