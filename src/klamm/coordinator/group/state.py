"""The groups of one shard: what the log remembers of them, and what is true now.

`replay` alone changes logged state, and keeps what it replaces until that is durable; `notes.apply` alone
changes transient state. A group exists as long as either half has something to say about it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from klamm.assignors.server import GroupAssignor
from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.consumer.settings import ConsumerGroupSettings
from klamm.coordinator.group.membership import NOBODY, Membership
from klamm.coordinator.group.mixed.policy import MigrationPolicy
from klamm.coordinator.group.offsets.commit_answers import CommitAnswers
from klamm.coordinator.group.offsets.signals import OffsetExpiryDue
from klamm.coordinator.group.remembered import GroupMemory
from klamm.coordinator.group.topics import TopicDirectory
from klamm.coordinator.runtime.fields import Fields
from klamm.coordinator.runtime.timers import Timer
from klamm.records.core import Replaced
from klamm.records.layout import OffsetCommitValue


class StagedCommit(Fields):
    """A commit of one topic that is not durable yet."""

    __slots__ = ("end_offset", "replaced", "topic")

    def __init__(self, end_offset: int, topic: str, replaced: Replaced) -> None:
        self.end_offset = end_offset  # durable when the log is durable up to here
        self.topic = topic
        self.replaced = replaced


class Group(Fields):
    """One group: what the log remembers of it, and its members."""

    __slots__ = (
        "group_id", "is_mixing_reported", "membership", "memory", "plain_commit_generation", "staged",
        "txn_commit_generation",
    )  # fmt: skip

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.memory = GroupMemory()
        self.membership: Membership = NOBODY
        self.staged: list[StagedCommit] = []  # oldest first; some may be durable already
        self.plain_commit_generation = -1  # of the last plain commit
        self.txn_commit_generation = -1  # of the last commit in a transaction
        self.is_mixing_reported = False

    def is_mixing(self, other_generation: int) -> bool:
        """Whether a commit now is the first to mix plain and transactional commits in one generation."""
        return other_generation == self.membership.generation and not self.is_mixing_reported


class GroupState(Fields):
    """All groups of one shard."""

    __slots__ = (
        "assignors", "commit_answers", "config", "consumer_settings", "durable_offset", "end_offset",
        "expiry_queue", "expiry_timer", "groups", "open_transactions", "topics",
    )  # fmt: skip

    def __init__(self, config: GroupConfig | None = None) -> None:
        self.config = GroupConfig() if config is None else config
        self.topics: TopicDirectory | None = None  # what exists in the cluster now; None: not known
        self.assignors: Mapping[
            str, GroupAssignor
        ] = {}  # those that are configured; the first is the default
        self.consumer_settings: Callable[[str], ConsumerGroupSettings] = (
            self._broker_settings
        )  # of each group
        self.commit_answers = CommitAnswers()
        self.groups: dict[str, Group] = {}
        self.open_transactions: dict[int, set[str]] = {}  # producer id -> its groups
        self.expiry_timer = Timer(OffsetExpiryDue())
        self.expiry_queue: tuple[str, ...] = ()  # groups that the current pass has not checked
        self.end_offset = 0  # everything below this offset of the log is replayed
        self.durable_offset = 0  # everything below this offset is durable

    def _broker_settings(self, group_id: str) -> ConsumerGroupSettings:
        config = self.config
        return ConsumerGroupSettings(
            config.group_consumer_session_timeout_ms,
            config.group_consumer_heartbeat_interval_ms,
            config.group_consumer_assignment_interval_ms,
            MigrationPolicy(config.group_consumer_migration_policy.lower()),
        )

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
            group_id: (
                group.memory.registration,
                group.memory.consumer,
                group.memory.offsets,
                group.memory.pending,
            )
            for group_id, group in self.groups.items()
            if not group.memory.is_blank
        }
