"""The only function that changes logged state: records as they are written, and as a load reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import assert_never

from klamm.coordinator.group.consumer.remembered import (
    ConsumerCurrent,
    ConsumerGroupEpoch,
    ConsumerMember,
    ConsumerMemory,
    ConsumerRecord,
    ConsumerRegex,
    ConsumerTarget,
    ConsumerTargetEpoch,
    ConsumerTopicMetadata,
    replay_consumer,
)
from klamm.coordinator.group.records import OFFSET_KEY_VERSIONS
from klamm.coordinator.group.remembered import (
    GroupForgotten,
    GroupRecord,
    GroupRegistered,
    OffsetCommitted,
    OffsetForgotten,
    OffsetPended,
    PendedBlock,
    TransactionEnded,
    end_transaction,
    forget_offset,
    pending_table_of,
    record_count,
    table_of,
    take_pending,
)
from klamm.coordinator.group.state import GroupState, StagedCommit
from klamm.records.batch import BatchHeader
from klamm.records.core import OffsetTable, store_batches, store_records
from klamm.records.layout import CommitBlock
from klamm.records.record import Record, records_region


def replay_all(state: GroupState, records: Sequence[GroupRecord], offset: int, written: Counter[type]) -> int:
    """Apply the records of one batch and count them by kind; the first has this offset. The one after it."""
    for record in records:
        if type(record) is CommitBlock:  # as `replay`, in fewer steps: nearly all are commits
            count = len(record.commits)
            _store_block(state, record, offset)
        else:
            count = record_count(record)
            replay(state, record, offset)
        written[type(record)] += count
        offset += count
    state.end_offset = offset
    return offset


def replay(state: GroupState, record: GroupRecord, offset: int) -> None:
    """Apply one record at this offset. Nothing else changes what the log remembers."""
    match record:
        case CommitBlock():
            _store_block(state, record, offset)
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
            memory.consumer = None
            memory.registered_until = offset + 1
        case GroupForgotten():
            memory = state.of(record.group_id).memory
            memory.registration = None
            memory.registered_until = offset + 1
        case (
            ConsumerGroupEpoch()
            | ConsumerTopicMetadata()
            | ConsumerMember()
            | ConsumerTargetEpoch()
            | ConsumerTarget()
            | ConsumerCurrent()
            | ConsumerRegex()
        ):
            _consumer(state, record, offset)
        case OffsetPended():
            _pend(state, record, offset)
        case PendedBlock():
            _pend_block(state, record, offset)
        case TransactionEnded():
            for group_id in state.open_transactions.pop(record.producer_id, ()):
                if (group := state.groups.get(group_id)) is not None:
                    end_transaction(group.memory, record.producer_id, is_commit=record.is_commit)
                    group.memory.changed_until = offset + 1
        case _:
            assert_never(record)


def _consumer(state: GroupState, record: ConsumerRecord, offset: int) -> None:
    """A value makes the group one of the consumer protocol; a tombstone of what is absent changes nothing."""
    memory = state.of(record.group_id).memory
    memory.registered_until = offset + 1
    is_tombstone = record.is_tombstone if isinstance(record, ConsumerTopicMetadata) else record.value is None
    if isinstance(record, ConsumerGroupEpoch) and is_tombstone:
        memory.consumer = None
        return
    if memory.consumer is None:
        if is_tombstone:
            return
        memory.consumer = ConsumerMemory()
        memory.registration = None
    replay_consumer(memory.consumer, record)


def _store_block(state: GroupState, block: CommitBlock, offset: int) -> None:
    """Store commits that were just appended; what they replace is kept until they are durable."""
    group_id, topic, topic_id, commits, commit_ms, expire_ms = block
    group = state.of(group_id)
    table = table_of(group.memory, topic)
    staged = group.staged
    if staged:
        durable_offset = state.durable_offset
        first, last = staged[0], staged[-1]
        if last.end_offset <= durable_offset:
            staged.clear()
        elif first.end_offset <= durable_offset:
            group.staged = staged = [each for each in staged if each.end_offset > durable_offset]
    staged.append(StagedCommit(offset + len(commits), topic, table.replaced_by(commits)))
    table.store(commits, offset, commit_ms, expire_ms, topic_id)


def _pend(state: GroupState, record: OffsetPended, offset: int) -> None:
    memory = state.of(record.group_id).memory
    memory.changed_until = offset + 1
    if record.committed is None:
        take_pending(memory, record.producer_id, record.topic, record.partition)
        return
    table = pending_table_of(memory, record.producer_id, record.topic)
    table.put(record.partition, offset, record.committed)
    state.open_transactions.setdefault(record.producer_id, set()).add(record.group_id)


def _pend_block(state: GroupState, record: PendedBlock, offset: int) -> None:
    block, producer_id = record.block, record.producer_id
    memory = state.of(block.group_id).memory
    memory.changed_until = offset + len(block.commits)
    table = pending_table_of(memory, producer_id, block.topic)
    table.store(block.commits, offset, block.commit_ms, block.expire_ms, block.topic_id)
    state.open_transactions.setdefault(producer_id, set()).add(block.group_id)


class BulkReplay:
    """Replays offset records straight from batches, which are nearly all that a load reads.

    It does what `replay` does with the same records, without an object for each: the records of a group's
    topic share their key but for the partition, and the first of them, which comes through `replay`, shows
    where the others belong. All other records are returned.
    """

    def __init__(self, state: GroupState) -> None:
        self._state = state
        self._tables: dict[bytes, OffsetTable] = {}  # by the key without the partition
        self._pending: dict[int, dict[bytes, OffsetTable]] = {}  # the same by producer id

    def batches(self, batches: bytes, position: int) -> tuple[int, int]:
        """Replay whole batches up to one that needs a closer look: its position, and the offset before."""
        return store_batches(batches, position, self._tables)

    def records(self, batches: bytes, position: int, header: BatchHeader) -> Iterator[Record]:
        """Replay the offsets of one batch, and yield the other records one by one."""
        tables = self._tables
        if header.is_transactional:
            tables = self._pending.setdefault(header.producer_id, {})
        region = records_region(batches, header, position)
        yield from store_records(region, header.record_count, header.base_offset, tables)

    def replay(self, key: bytes, record: GroupRecord, offset: int) -> None:
        """Replay a record that was yielded; those like it are stored in bulk from now on."""
        replay(self._state, record, offset)
        match record:
            case OffsetCommitted():
                offsets = self._state.groups[record.group_id].memory.offsets
                self._tables[key[:-4]] = offsets[record.topic]
            case OffsetPended():
                pending = self._state.groups[record.group_id].memory.pending.get(record.producer_id, {})
                if record.topic in pending:
                    self._pending[record.producer_id][key[:-4]] = pending[record.topic]
                else:
                    self._pending[record.producer_id].pop(key[:-4], None)
            case OffsetForgotten():
                for version in OFFSET_KEY_VERSIONS:  # a table is removed with its last offset
                    prefix = bytes((0, version)) + key[2:-4]
                    for tables in (self._tables, *self._pending.values()):
                        tables.pop(prefix, None)

    def end_transaction(self, ended: TransactionEnded, offset: int) -> None:
        """Replay a marker: the producer's next offsets are pending in a new transaction."""
        replay(self._state, ended, offset)
        self._pending.pop(ended.producer_id, None)
