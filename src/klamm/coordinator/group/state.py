"""The groups of one shard: what the log remembers of them, and what is true now.

`replay` alone changes logged state, and keeps what it replaces until that is durable; `notes.apply` alone
changes transient state. A group exists as long as either half has something to say about it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.membership import NOBODY, Membership
from klamm.coordinator.group.offsets.commit_answers import CommitAnswers
from klamm.coordinator.group.offsets.signals import OffsetExpiryDue
from klamm.coordinator.group.remembered import GroupMemory
from klamm.coordinator.group.topics import TopicDirectory
from klamm.coordinator.runtime.timers import Timer
from klamm.records.core import Replaced
from klamm.records.layout import OffsetCommitValue


class StagedCommit(NamedTuple):
    """A commit of one topic that is not durable yet."""

    end_offset: int  # durable when the log is durable up to here
    topic: str
    replaced: Replaced


@dataclass(slots=True)
class Group:
    """One group: what the log remembers of it, and its members."""

    group_id: str
    memory: GroupMemory = field(default_factory=GroupMemory)
    membership: Membership = NOBODY
    staged: list[StagedCommit] = field(default_factory=list)  # oldest first; some may be durable already
    plain_commit_generation: int = -1  # of the last plain commit
    txn_commit_generation: int = -1  # of the last commit in a transaction
    is_mixing_reported: bool = False

    def is_mixing(self, other_generation: int) -> bool:
        """Whether a commit now is the first to mix plain and transactional commits in one generation."""
        return other_generation == self.membership.generation and not self.is_mixing_reported


@dataclass(slots=True)
class GroupState:
    """All groups of one shard."""

    config: GroupConfig = field(default_factory=GroupConfig)
    topics: TopicDirectory | None = None  # what exists in the cluster now; None: not known
    commit_answers: CommitAnswers = field(default_factory=CommitAnswers)
    groups: dict[str, Group] = field(default_factory=dict)
    open_transactions: dict[int, set[str]] = field(default_factory=dict)  # producer id -> its groups
    expiry_timer: Timer = field(default_factory=lambda: Timer(OffsetExpiryDue()))
    expiry_queue: tuple[str, ...] = ()  # groups that the current pass has not checked
    end_offset: int = 0  # everything below this offset of the log is replayed
    durable_offset: int = 0  # everything below this offset is durable

    def of(self, group_id: str) -> Group:
        """The group, created if absent. For `replay` and `apply`; decisions use `groups.get`."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id)
        return group

    def replaced(self, group: Group, topic: str, partition: int) -> Replaced | None:
        """The durable values that a commit replaces, if one for this partition is not durable yet."""
        for staged in group.staged:
            is_of_topic = staged.end_offset > self.durable_offset and staged.topic == topic
            if is_of_topic and partition in staged.replaced:
                return staged.replaced
        return None

    def durable(self, group: Group, topic: str, partition: int) -> OffsetCommitValue | None:
        """The last committed value that is durable."""
        replaced = self.replaced(group, topic, partition)
        stored = group.memory.committed(topic, partition) if replaced is None else replaced.get(partition)
        return None if stored is None else stored[1]

    def remembered(self) -> dict[str, tuple[object, ...]]:
        """The remembered part of every group, for comparing two states."""
        return {
            group_id: (group.memory.registration, group.memory.offsets, group.memory.pending)
            for group_id, group in self.groups.items()
            if not group.memory.is_blank
        }
