"""Reading a shard's log back: the same state, from batches as they stand on the disk."""

from __future__ import annotations

import logging

from klamm.coordinator.group.classic.live import JoinProtocol, Live, Member
from klamm.coordinator.group.classic.phases import Phase
from klamm.coordinator.group.classic.vote import topics_of
from klamm.coordinator.group.draft import GroupOutcome
from klamm.coordinator.group.records import OFFSET_KEY_VERSIONS, UnknownKey, decode_record
from klamm.coordinator.group.remembered import (
    GroupRegistered,
    OffsetCommitted,
    OffsetForgotten,
    OffsetPended,
    TransactionEnded,
)
from klamm.coordinator.group.signals import OverCapacity, SessionOver
from klamm.coordinator.group.state import GroupState, replay
from klamm.coordinator.runtime.machine import CorruptLogError
from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.coordinator.runtime.timers import TimerChange
from klamm.protocol.errors import DecodeError
from klamm.records.batch import BatchHeader, crc_is_valid, iter_headers
from klamm.records.core import OffsetTable, store_batches, store_records
from klamm.records.layout import CommittedOffset
from klamm.records.markers import decode_marker
from klamm.records.record import Record, decode_records, records_region

_logger = logging.getLogger(__name__)


class Loader:
    """Replays batches into a state that nobody uses yet."""

    def __init__(self, state: GroupState) -> None:
        self._state = state
        # The records of a group's topic share all of their key but the partition. It leads straight to where
        # the offsets are stored; only what is first of its kind, and what is no plain offset, is looked at.
        self._tables: dict[bytes, OffsetTable] = {}
        self._warned: set[int] = set()

    def load(self, batches: bytes) -> int:
        """Replay whole batches; the offset after the last. Raises CorruptLogError that says where."""
        next_offset = -1
        position = 0
        try:
            while True:
                # Nearly all that there is goes this way.
                position, stored_until = store_batches(batches, position, self._tables)
                next_offset = max(next_offset, stored_until)
                other = next(iter_headers(batches, position), None)
                if other is None:
                    break
                _, header = other
                next_offset = header.base_offset
                if not crc_is_valid(batches, position, header):
                    raise DecodeError("its checksum is wrong")
                self._load_batch(batches, position, header)
                next_offset = header.next_offset
                position += header.size_bytes
        except DecodeError as error:
            where = f"the batch at offset {next_offset}" if next_offset >= 0 else "what was read"
            raise CorruptLogError(f"{where} cannot be read: {error}") from error
        if next_offset < 0:
            raise CorruptLogError(f"{len(batches)} bytes hold no whole batch")
        return next_offset

    def _load_batch(self, batches: bytes, position: int, header: BatchHeader) -> None:
        if header.is_control:
            marker = decode_marker(batches, position)
            if marker is not None:
                ended = TransactionEnded(header.producer_id, marker.is_commit)
                replay(self._state, ended, header.base_offset)
        elif header.is_transactional:
            for record in decode_records(batches, position):
                self._load_pending(record, header)
        else:
            region = records_region(batches, header, position)
            for record in store_records(region, header.record_count, header.base_offset, self._tables):
                self._load_record(record)

    def _load_record(self, record: Record) -> None:
        try:
            decoded = decode_record(record.key, record.value)
        except DecodeError as error:
            raise CorruptLogError(f"the record at offset {record.offset} cannot be read: {error}") from error
        if isinstance(decoded, UnknownKey):
            self._skip(decoded, record)
            return
        replay(self._state, decoded, record.offset)
        assert record.key is not None
        if isinstance(decoded, OffsetCommitted):
            offsets = self._state.groups[decoded.group_id].memory.offsets
            self._tables[record.key[:-4]] = offsets[decoded.topic]
        elif isinstance(decoded, OffsetForgotten):
            for version in OFFSET_KEY_VERSIONS:  # the table goes with its last offset
                self._tables.pop(bytes((0, version)) + record.key[2:-4], None)

    def _load_pending(self, record: Record, header: BatchHeader) -> None:
        decoded = decode_record(record.key, record.value)
        value: CommittedOffset | None = None
        match decoded:
            case OffsetCommitted():
                value = decoded.committed
            case OffsetForgotten():
                pass
            case UnknownKey():
                self._skip(decoded, record)
                return
            case _:
                replay(self._state, decoded, record.offset)  # registrations are never part of a transaction
                return
        pended = OffsetPended(
            decoded.group_id,
            decoded.topic,
            decoded.partition,
            value,
            header.producer_id,
            header.producer_epoch,
        )
        replay(self._state, pended, record.offset)

    def _skip(self, unknown: UnknownKey, record: Record) -> None:
        if unknown.version not in self._warned:
            self._warned.add(unknown.version)
            _logger.warning(
                "skipped the record at offset %d, and all like it: its key has version %d, which is unknown",
                record.offset,
                unknown.version,
            )


def set_up(state: GroupState, context: Context) -> GroupOutcome:
    """Bring loaded groups to life: as registered last, with sessions that run from now."""
    timers: list[TimerChange] = []
    crowded: list[OverCapacity] = []
    for group_id, group in list(state.groups.items()):
        if group.memory.is_blank:
            del state.groups[group_id]
            continue
        registration = group.memory.registration
        if registration is None:
            continue
        group.live = _revived(registration)
        for member in group.live.members.values():
            timers.append((member, context.now_ms + member.session_timeout_ms))
        if len(group.live.members) > state.config.group_max_size:
            crowded.append(OverCapacity(group_id))
    first_pass_ms = context.now_ms + state.config.offsets_retention_check_interval_ms
    timers.append((state.expiry_timer, first_pass_ms))
    return Outcome(timers=timers, then=crowded)


def _revived(registration: GroupRegistered) -> Live:
    live = Live(
        registration.group_id,
        phase=Phase.STABLE if registration.members else Phase.EMPTY,
        phase_timestamp_ms=None if registration.state_timestamp_ms < 0 else registration.state_timestamp_ms,
        generation=registration.generation,
        protocol_type=registration.protocol_type or None,
        protocol_name=registration.protocol_name,
        leader_id=registration.leader_id,
    )
    protocol_name = registration.protocol_name or ""
    for known in registration.members:
        live.members[known.member_id] = Member(
            signal=SessionOver(registration.group_id, known.member_id),
            member_id=known.member_id,
            group_instance_id=known.group_instance_id,
            client_id=known.client_id,
            client_host=known.client_host,
            session_timeout_ms=known.session_timeout_ms,
            rebalance_timeout_ms=known.rebalance_timeout_ms,
            protocols=(JoinProtocol(protocol_name, known.subscription),),
            assignment=known.assignment,
            is_new=False,
        )
        if known.group_instance_id is not None:
            live.static_members[known.group_instance_id] = known.member_id
    if live.leader_id not in live.members:
        live.leader_id = next(iter(live.members), None)
    if live.members:
        live.supported = {protocol_name: len(live.members)}
        live.subscribed_topics = topics_of(live.protocol_type, protocol_name, list(live.members.values()))
    return live
