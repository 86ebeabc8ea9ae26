"""Loading a shard: its state, from the batches of its log."""

from __future__ import annotations

import logging

from klamm.coordinator.group.classic.loading import revived
from klamm.coordinator.group.classic.signals import OverCapacity, RebalanceUnfinished
from klamm.coordinator.group.consumer.loading import reopened
from klamm.coordinator.group.notes import GroupDropped, GroupOpened, Note
from klamm.coordinator.group.offsets.signals import TopicsCheck
from klamm.coordinator.group.outcomes import GroupOutcome
from klamm.coordinator.group.records import UnknownGroupKey, decode_record
from klamm.coordinator.group.remembered import (
    GroupRecord,
    OffsetCommitted,
    OffsetForgotten,
    OffsetPended,
    TransactionEnded,
)
from klamm.coordinator.group.replay import BulkReplay
from klamm.coordinator.group.state import GroupState
from klamm.coordinator.runtime.machine import CorruptLogError
from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.coordinator.runtime.timers import TimerChange
from klamm.protocol.errors import DecodeError
from klamm.records.batch import BatchHeader, crc_is_valid, iter_headers
from klamm.records.markers import decode_marker
from klamm.records.record import Record

_logger = logging.getLogger(__name__)


class GroupLoader:
    """Replays batches into a state that is not in use yet."""

    def __init__(self, state: GroupState) -> None:
        self._state = state
        self._bulk = BulkReplay(state)
        self._warned: set[int] = set()

    def load(self, batches: bytes) -> int:
        """Replay whole batches; the offset after the last. Raises CorruptLogError with the position."""
        next_offset = -1
        position = 0
        try:
            while True:
                position, stored_until = self._bulk.batches(batches, position)
                next_offset = max(next_offset, stored_until)
                other = next(iter_headers(batches, position), None)
                if other is None:
                    break
                _, header = other
                next_offset = header.base_offset
                if not crc_is_valid(batches, position, header):
                    raise DecodeError("checksum mismatch")
                self._load_batch(batches, position, header)
                next_offset = header.next_offset
                position += header.size_bytes
        except DecodeError as error:
            where = f"invalid batch at offset {next_offset}" if next_offset >= 0 else "invalid batch"
            raise CorruptLogError(f"{where}: {error}") from error
        if next_offset < 0:
            raise CorruptLogError(f"no complete batch in {len(batches)} bytes")
        return next_offset

    def _load_batch(self, batches: bytes, position: int, header: BatchHeader) -> None:
        if header.is_control:
            marker = decode_marker(batches, position)
            if marker is not None:
                ended = TransactionEnded(header.producer_id, marker.is_commit)
                self._bulk.end_transaction(ended, header.base_offset)
            return
        for record in self._bulk.records(batches, position, header):
            try:
                decoded = decode_record(record.key, record.value)
            except DecodeError as error:
                raise CorruptLogError(f"invalid record at offset {record.offset}: {error}") from error
            if isinstance(decoded, UnknownGroupKey):
                self._skip(decoded, record)
                continue
            assert record.key is not None
            if header.is_transactional:
                decoded = _pended(decoded, header)
            self._bulk.replay(record.key, decoded, record.offset)

    def _skip(self, unknown: UnknownGroupKey, record: Record) -> None:
        if unknown.version not in self._warned:
            self._warned.add(unknown.version)
            _logger.warning(
                "skipping records with unknown key version %d, the first at offset %d",
                unknown.version,
                record.offset,
            )


def _pended(record: GroupRecord, header: BatchHeader) -> GroupRecord:
    """An offset as part of its transaction; other records take effect at once."""
    if not isinstance(record, OffsetCommitted | OffsetForgotten):
        return record
    value = record.committed if isinstance(record, OffsetCommitted) else None
    producer = header.producer_id, header.producer_epoch
    return OffsetPended(record.group_id, record.topic, record.partition, value, *producer)


def set_up(state: GroupState, context: Context) -> GroupOutcome:
    """Open the groups that were loaded: as registered last, with sessions that run from now."""
    notes: list[Note] = []
    timers: list[TimerChange] = []
    crowded: list[OverCapacity] = []
    unfinished: list[RebalanceUnfinished] = []
    for group_id, group in state.groups.items():
        if group.memory.is_blank:
            notes.append(GroupDropped(group_id))
            continue
        if group.memory.consumer is not None:
            reopenings, sessions = reopened(state, group_id, group.memory.consumer, context)
            notes += reopenings
            timers += sessions
            continue
        registration = group.memory.registration
        if registration is None:
            continue
        membership = revived(registration)
        notes.append(GroupOpened(group_id, membership))
        for member in membership.members.values():
            timers.append((member, context.now_ms + member.session_timeout_ms))
        if registration.is_way_back:
            unfinished.append(RebalanceUnfinished(group_id))
        elif len(membership.members) > state.config.group_max_size:
            crowded.append(OverCapacity(group_id))
    first_pass_ms = context.now_ms + state.config.offsets_retention_check_interval_ms
    timers.append((state.expiry_timer, first_pass_ms))
    return Outcome(notes=notes, timers=timers, then=(TopicsCheck(), *crowded, *unfinished))
