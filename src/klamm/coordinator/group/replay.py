"""The one door to what the log remembers: records as they are written, and records as a load reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from klamm.coordinator.group.records import OFFSET_KEY_VERSIONS
from klamm.coordinator.group.remembered import (
    GroupForgotten,
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
from klamm.coordinator.group.state import GroupState
from klamm.protocol.types import TopicPartition
from klamm.records.batch import BatchHeader
from klamm.records.core import OffsetTable, store_batches, store_records
from klamm.records.layout import CommitBlock
from klamm.records.record import Record, records_region


def replay_all(state: GroupState, records: Sequence[GroupRecord], offset: int) -> None:
    """Apply the records of one batch; the first has this offset."""
    for record in records:
        replay(state, record, offset)
        offset += len(record.commits) if type(record) is CommitBlock else 1
    state.end_offset = offset


def replay(state: GroupState, record: GroupRecord, offset: int) -> None:
    """Apply one record at this offset. Nothing else changes what the log remembers."""
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


class BulkReplay:
    """Replays plain offset records straight from batches, which are nearly all that a load reads.

    It does what `replay` does with the same records, without an object for each: the records of a group's
    topic share their key but for the partition, and the first of them, which comes through `replay`, shows
    where the others belong. Everything else is handed back.
    """

    def __init__(self, state: GroupState) -> None:
        self._state = state
        self._tables: dict[bytes, OffsetTable] = {}  # by the key without the partition

    def batches(self, batches: bytes, position: int) -> tuple[int, int]:
        """Replay whole batches up to one that needs a closer look: its position, and the offset before."""
        return store_batches(batches, position, self._tables)

    def records(self, batches: bytes, position: int, header: BatchHeader) -> Iterator[Record]:
        """Replay the plain offsets of one batch, and hand back the other records one by one."""
        region = records_region(batches, header, position)
        yield from store_records(region, header.record_count, header.base_offset, self._tables)

    def replay(self, key: bytes, record: GroupRecord, offset: int) -> None:
        """Replay a record that was handed back; those like it are stored in bulk from now on."""
        replay(self._state, record, offset)
        if isinstance(record, OffsetCommitted):
            offsets = self._state.groups[record.group_id].memory.offsets
            self._tables[key[:-4]] = offsets[record.topic]
        elif isinstance(record, OffsetForgotten):
            for version in OFFSET_KEY_VERSIONS:  # the table is removed with its last offset
                self._tables.pop(bytes((0, version)) + key[2:-4], None)
