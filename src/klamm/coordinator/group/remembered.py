"""The logged state of a shard: records, and the state of one group that they build.

A record replaces or removes the value of its key. There are no deltas, so compaction does not change the
result.
"""

from __future__ import annotations

from typing import NamedTuple

from klamm.coordinator.group.consumer.remembered import ConsumerMemory, ConsumerRecord
from klamm.coordinator.runtime.fields import Fields
from klamm.records.core import OffsetTable
from klamm.records.layout import CommitBlock, OffsetCommitValue, Stored


class RegisteredMember(NamedTuple):
    """One member of a registered generation."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


# --- records -----------------------------------------------------------------------------------------


class OffsetCommitted(NamedTuple):
    """A commit outside a transaction, of one partition; the commits of one request are logged as blocks."""

    group_id: str
    topic: str
    partition: int
    committed: OffsetCommitValue


class OffsetForgotten(NamedTuple):
    """The tombstone of an offset."""

    group_id: str
    topic: str
    partition: int


class GroupRegistered(NamedTuple):
    """A generation with its assignments, or a group whose last member left."""

    group_id: str
    protocol_type: str
    generation: int
    protocol_name: str | None
    leader_id: str | None
    state_timestamp_ms: int  # -1: unknown, from an old broker
    members: tuple[RegisteredMember, ...] = ()

    @property
    def is_way_back(self) -> bool:
        """A consumer group became classic: members have to join again, and until then have what they had."""
        return bool(self.members) and self.leader_id is None


class GroupForgotten(NamedTuple):
    """The tombstone of a group."""

    group_id: str


class OffsetPended(NamedTuple):
    """A commit within a transaction: it is applied with the commit marker. None removes it."""

    group_id: str
    topic: str
    partition: int
    committed: OffsetCommitValue | None
    producer_id: int
    producer_epoch: int


class PendedBlock(NamedTuple):
    """Commits of one topic within a transaction, as one request brings them: a record for each partition."""

    block: CommitBlock
    producer_id: int
    producer_epoch: int


class TransactionEnded(NamedTuple):
    """The marker at the end of a producer's transaction."""

    producer_id: int
    is_commit: bool


GroupRecord = (
    CommitBlock
    | OffsetCommitted
    | OffsetForgotten
    | GroupRegistered
    | GroupForgotten
    | OffsetPended
    | PendedBlock
    | TransactionEnded
    | ConsumerRecord
)


def record_count(record: GroupRecord) -> int:
    """The number of log records that it represents."""
    if type(record) is CommitBlock:
        return len(record.commits)
    return len(record.block.commits) if type(record) is PendedBlock else 1


# --- state -------------------------------------------------------------------------------------------


class GroupMemory(Fields):
    """What the log remembers of one group."""

    __slots__ = ("changed_until", "consumer", "offsets", "pending", "registered_until", "registration")

    def __init__(self) -> None:
        # Of its members: in the classic protocol, or in the consumer protocol, or none at all.
        self.registration: GroupRegistered | None = None
        self.consumer: ConsumerMemory | None = None
        self.registered_until = 0  # what is known of its members is durable when the log is up to here
        self.changed_until = 0  # the same for removed and for transactional offsets
        self.offsets: dict[str, OffsetTable] = {}  # by topic
        self.pending: dict[int, dict[str, OffsetTable]] = {}  # by producer id, by topic

    @property
    def is_blank(self) -> bool:
        has_members = self.registration is not None or self.consumer is not None
        return not (has_members or self.offsets or self.pending)

    def committed(self, topic: str, partition: int) -> Stored | None:
        table = self.offsets.get(topic)
        return None if table is None else table.get(partition)

    def is_pending(self, topic: str, partition: int) -> bool:
        """Whether an open transaction has an offset for this partition."""
        return any(topic in tables and partition in tables[topic] for tables in self.pending.values())


def table_of(memory: GroupMemory, topic: str) -> OffsetTable:
    """The table for the offsets of a topic, created if absent."""
    table = memory.offsets.get(topic)
    if table is None:
        table = memory.offsets[topic] = OffsetTable()
    return table


def pending_table_of(memory: GroupMemory, producer_id: int, topic: str) -> OffsetTable:
    """The table for the pending offsets of a topic, created if absent."""
    tables = memory.pending.setdefault(producer_id, {})
    table = tables.get(topic)
    if table is None:
        table = tables[topic] = OffsetTable()
    return table


def forget_offset(memory: GroupMemory, topic: str, partition: int) -> None:
    """Remove an offset, committed and pending: a commit marker does not bring it back."""
    _remove(memory.offsets, topic, partition)
    for producer_id in [pid for pid, tables in memory.pending.items() if topic in tables]:
        take_pending(memory, producer_id, topic, partition)


def take_pending(memory: GroupMemory, producer_id: int, topic: str, partition: int) -> None:
    """Remove a pending offset of one producer."""
    tables = memory.pending.get(producer_id)
    if tables is not None:
        _remove(tables, topic, partition)
        if not tables:
            del memory.pending[producer_id]


def _remove(tables: dict[str, OffsetTable], topic: str, partition: int) -> None:
    table = tables.get(topic)
    if table is not None and table.remove(partition) and not table:
        del tables[topic]


def end_transaction(memory: GroupMemory, producer_id: int, *, is_commit: bool) -> None:
    """Move a producer's pending offsets, unless a later commit was written after them; or drop them."""
    pending = memory.pending.pop(producer_id, {})
    if not is_commit:
        return
    for topic, table in pending.items():
        committed = memory.offsets.get(topic)
        if committed is None:
            memory.offsets[topic] = table
            continue
        for partition, stored in table.items():
            current = committed.get(partition)
            if current is None or current[0] < stored[0]:
                committed.put(partition, *stored)
