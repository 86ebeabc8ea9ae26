"""Offsets that are committed in transactions: each takes effect with its COMMIT marker, and not before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.coordinator.group.placement import OFFSETS_TOPIC
from klamm.coordinator.group.records import decode_record
from klamm.coordinator.group.remembered import OffsetCommitted
from klamm.records.batch import BatchHeader, parse_header
from klamm.records.markers import decode_marker
from klamm.records.record import decode_records
from klamm.storage.log import EngineLog
from simulation.checkers import Checker, Place
from simulation.offset_checker import OffsetChecker
from simulation.registers import Value, Write

if TYPE_CHECKING:
    from simulation.world import World

Pending = dict[tuple[str, Place], Value]


class TxnOffsetChecker(Checker):
    """Enters into the registers of committed offsets what transactions write to them."""

    def __init__(self, world: World, offsets: OffsetChecker) -> None:
        super().__init__(world)
        self._offsets = offsets
        self._pending: dict[tuple[int, int], Pending] = {}  # by partition and producer id
        self._begun: dict[tuple[int, int], list[tuple[str, Place, Write]]] = {}  # by partition and offset

    def log_opened(self, log: EngineLog) -> None:
        if log.topic == OFFSETS_TOPIC:
            for partition, offset in list(self._begun):
                if partition == log.partition and offset >= log.log_end_offset:
                    self._cut_off(partition, offset)

    def _cut_off(self, partition: int, offset: int) -> None:
        """A marker is gone from the log: what it would have committed never was."""
        for group, place, write in self._begun.pop((partition, offset), ()):
            if not write.is_certain:
                self._offsets.register(group, place).refused(write)

    def appended(self, log: EngineLog, batch: bytes, base_offset: int) -> None:
        if log.topic != OFFSETS_TOPIC:
            return
        self._cut_off(log.partition, base_offset)
        header = parse_header(batch)
        if header.is_control and _is_commit(batch):
            self.world.logs.look_again((log.topic, log.partition))
            moment = self.world.moment()
            pending = self._pending.get((log.partition, header.producer_id), {})
            self._begun[log.partition, base_offset] = [
                (group, place, self._offsets.register(group, place).write(value, moment))
                for (group, place), value in pending.items()
            ]

    def became_safe(self, log: EngineLog, header: BatchHeader, batch: bytes) -> None:
        if log.topic != OFFSETS_TOPIC or not header.is_transactional:
            return
        key = (log.partition, header.producer_id)
        if not header.is_control:
            self._pending.setdefault(key, {}).update(_committed(batch))
            return
        self._pending.pop(key, None)
        for _, _, write in self._begun.get((log.partition, header.base_offset), ()):
            write.is_certain = True
            write.ended_at = self.world.moment() if write.ended_at is None else write.ended_at

    def died(self, how: str) -> None:
        moment = self.world.moment()
        for begun in self._begun.values():
            for _, _, write in begun:
                write.ended_at = moment if write.ended_at is None else write.ended_at


def _is_commit(batch: bytes) -> bool:
    marker = decode_marker(batch)
    return marker is not None and marker.is_commit


def _committed(batch: bytes) -> Pending:
    decoded = [decode_record(record.key, record.value) for record in decode_records(batch)]
    return {
        (each.group_id, (each.topic, each.partition)): (each.committed.offset, each.committed.metadata)
        for each in decoded
        if isinstance(each, OffsetCommitted)
    }
