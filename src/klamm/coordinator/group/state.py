"""The groups of one shard: what the log remembers of them, and what is true now.

Each half has one door: `replay` for records, `apply` for notes. A group is there as long as either half has
something to say of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, assert_never

from klamm.coordinator.group.classic.live import Live
from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.remembered import (
    GroupForgotten,
    GroupMemory,
    GroupRecord,
    GroupRegistered,
    OffsetCommitted,
    OffsetForgotten,
    OffsetPended,
    TransactionEnded,
    end_transaction,
    forget_offset,
    table_of,
    take_pending,
)
from klamm.coordinator.group.signals import ExpiryDue
from klamm.coordinator.runtime.timers import Timer
from klamm.protocol.types import TopicPartition
from klamm.records.core import Replaced
from klamm.records.layout import CommitBlock, CommittedOffset

NOBODY: Final = Live("")  # of a group that nobody ever joined; never changed


class StagedCommit(NamedTuple):
    """A commit on its way to the disk."""

    end_offset: int  # it is there when everything below this offset of the log is
    replaced: tuple[tuple[str, Replaced], ...]  # by topic


@dataclass(slots=True)
class Group:
    """One group: its memory, and its life."""

    group_id: str
    memory: GroupMemory = field(default_factory=GroupMemory)
    live: Live = field(default_factory=lambda: NOBODY)  # one for all that nobody joined
    staged: list[StagedCommit] = field(default_factory=list)  # oldest first; some may have arrived
    plain_commit_generation: int = -1  # of the last plain commit
    txn_commit_generation: int = -1  # of the last commit in a transaction
    is_mixing_reported: bool = False

    def is_mixing(self, other_generation: int) -> bool:
        """Whether a commit now is the first to mix plain and transactional commits in one generation."""
        return other_generation == self.live.generation and not self.is_mixing_reported


@dataclass(slots=True)
class GroupState:
    """All groups of one shard."""

    config: GroupConfig = field(default_factory=GroupConfig)
    groups: dict[str, Group] = field(default_factory=dict)
    open_transactions: dict[int, set[str]] = field(default_factory=dict)  # producer id -> its groups
    expiry_timer: Timer = field(default_factory=lambda: Timer(ExpiryDue()))
    expiry_queue: tuple[str, ...] = ()  # groups that the running pass has not looked at
    end_offset: int = 0  # everything below this offset of the log is replayed
    durable_offset: int = 0  # everything below this one survives a crash

    def of(self, group_id: str) -> Group:
        """The group, made if it is not there. For the two doors; decisions use `groups.get`."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id)
        return group

    def replaced(self, group: Group, topic: str, partition: int) -> Replaced | None:
        """What knows the value that a partition has on the disk, if another is on its way there."""
        for staged in group.staged:
            if staged.end_offset > self.durable_offset:
                for name, replaced in staged.replaced:
                    if name == topic and partition in replaced:
                        return replaced
        return None

    def durable(self, group: Group, topic: str, partition: int) -> CommittedOffset | None:
        """What was committed last and has reached the disk."""
        replaced = self.replaced(group, topic, partition)
        stored = group.memory.committed(topic, partition) if replaced is None else replaced.get(partition)
        return None if stored is None else stored[1]

    def remembered(self) -> dict[str, tuple[object, ...]]:
        """What the log tells of every group: two states are the same when this is."""
        return {
            group_id: (group.memory.registration, group.memory.offsets, group.memory.pending)
            for group_id, group in self.groups.items()
            if not group.memory.is_blank
        }


def replay_all(state: GroupState, records: Sequence[GroupRecord], offset: int) -> None:
    """Apply the records of one batch, the first of which stands at this offset."""
    for record in records:
        replay(state, record, offset)
        offset += len(record.commits) if type(record) is CommitBlock else 1
    state.end_offset = offset


def replay(state: GroupState, record: GroupRecord, offset: int) -> None:
    """Apply one record that stands at this offset. Nothing else changes what the log remembers."""
    match record:
        case CommitBlock():
            table = table_of(state.of(record.group_id).memory, record.topic)
            table.store(record.commits, offset, record.commit_ms, record.expire_ms, record.topic_id)
        case OffsetCommitted():
            table = table_of(state.of(record.group_id).memory, record.topic)
            table.put(record.partition, offset, record.committed)
        case OffsetForgotten():
            memory = state.of(record.group_id).memory
            forget_offset(memory, record.topic, record.partition)
            memory.changed_until = offset + 1
        case GroupRegistered():
            memory = state.of(record.group_id).memory
            memory.registration = record
            memory.registered_until = offset + 1
        case GroupForgotten():
            memory = state.of(record.group_id).memory
            memory.registration = None
            memory.registered_until = offset + 1
        case OffsetPended():
            _pend(state, record, offset)
        case TransactionEnded():
            for group_id in state.open_transactions.pop(record.producer_id, ()):
                if (group := state.groups.get(group_id)) is not None:
                    end_transaction(group.memory, record.producer_id, is_commit=record.is_commit)
                    group.memory.changed_until = offset + 1
        case _:
            assert_never(record)


def _pend(state: GroupState, record: OffsetPended, offset: int) -> None:
    memory = state.of(record.group_id).memory
    memory.changed_until = offset + 1
    key = TopicPartition(record.topic, record.partition)
    if record.committed is None:
        take_pending(memory, record.producer_id, key)
        return
    memory.pending.setdefault(record.producer_id, {})[key] = (offset, record.committed)
    state.open_transactions.setdefault(record.producer_id, set()).add(record.group_id)
