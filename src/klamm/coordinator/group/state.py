"""The groups of one shard: what the log remembers of them, and what is true now.

Each half has one door: `replay` for records, `apply` for notes. A group is there as long as either half has
something to say of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, assert_never

from klamm.coordinator.group.config import GroupConfig
from klamm.coordinator.group.live import Live
from klamm.coordinator.group.remembered import (
    Before,
    GroupForgotten,
    GroupMemory,
    GroupRecord,
    GroupRegistered,
    OffsetCommitted,
    OffsetForgotten,
    OffsetPended,
    Stored,
    TransactionEnded,
    end_transaction,
    forget_offset,
    store_offset,
    take_pending,
)
from klamm.coordinator.group.signals import ExpiryDue
from klamm.coordinator.runtime.timers import Timer
from klamm.protocol.types import TopicPartition

NOBODY: Final = Live("")  # of a group that nobody ever joined; never changed


@dataclass(slots=True)
class Group:
    """One group: its memory, and its life."""

    group_id: str
    memory: GroupMemory = field(default_factory=GroupMemory)
    live: Live = field(default_factory=lambda: NOBODY)  # one for all that nobody joined
    staged: dict[int, Before] = field(default_factory=dict)
    """Commits on their way to the disk, oldest first, by the identity of what they replace."""

    def is_staged(self, topic: str, partition: int) -> bool:
        key = (topic, partition)
        return any(key in before for before in self.staged.values())


@dataclass(slots=True)
class GroupState:
    """All groups of one shard."""

    config: GroupConfig = field(default_factory=GroupConfig)
    groups: dict[str, Group] = field(default_factory=dict)
    open_transactions: dict[int, set[str]] = field(default_factory=dict)  # producer id -> its groups
    expiry_timer: Timer = field(default_factory=lambda: Timer(ExpiryDue()))
    expiry_queue: tuple[str, ...] = ()  # groups that the running pass has not looked at

    def of(self, group_id: str) -> Group:
        """The group, made if it is not there. For the two doors; decisions use `groups.get`."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id)
        return group

    def remembered(self) -> dict[str, tuple[object, ...]]:
        """What the log tells of every group: two states are the same when this is."""
        return {
            group_id: (group.memory.registration, group.memory.offsets, group.memory.pending)
            for group_id, group in self.groups.items()
            if not group.memory.is_blank
        }


def replay_all(state: GroupState, records: Sequence[GroupRecord], offset: int) -> None:
    """Apply the records of one batch, the first of which stands at this offset."""
    group_id = topic = None
    partitions: dict[int, Stored] | None = None
    for record in records:
        if type(record) is not OffsetCommitted:
            replay(state, record, offset)
            partitions = None
        elif partitions is not None and record.topic is topic and record.group_id is group_id:
            # As `replay` would, without looking for the place: a commit names one topic after the other.
            partitions[record.partition] = (offset, record.committed)
        else:
            replay(state, record, offset)
            group_id, topic = record.group_id, record.topic
            partitions = state.groups[group_id].memory.offsets[topic]
        offset += 1


def replay(state: GroupState, record: GroupRecord, offset: int) -> None:
    """Apply one record that stands at this offset. Nothing else changes what the log remembers."""
    match record:
        case OffsetCommitted():
            memory = state.of(record.group_id).memory
            store_offset(memory, record.topic, record.partition, (offset, record.committed))
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
