"""A coordinator's log that becomes bytes when it is read: after a restart of the coordinator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from klamm.coordinator.group.machine import GroupMachine
from klamm.coordinator.group.remembered import GroupRegistered
from klamm.records.batch import parse_header, stamp


class LateBatch:
    """The record of a generation, not encoded yet. Records of the coordinator never change."""

    __slots__ = ("_machine", "_records", "_timestamp_ms")

    def __init__(self, machine: LateMachine, records: Sequence[Any], timestamp_ms: int) -> None:
        self._machine = machine
        self._records = records
        self._timestamp_ms = timestamp_ms

    def encoded(self) -> bytes:
        return self._machine.encode_now(self._records, self._timestamp_ms)


class LateMachine(GroupMachine):
    """A group coordinator's machine for a LateLog."""

    def encode(self, records: Sequence[Any], timestamp_ms: int) -> bytes:
        if len(records) == 1 and type(records[0]) is GroupRegistered:
            return cast(bytes, LateBatch(self, records, timestamp_ms))
        return self.encode_now(records, timestamp_ms)

    def encode_now(self, records: Sequence[Any], timestamp_ms: int) -> bytes:
        return super().encode(records, timestamp_ms)


class LateLog:
    """The log of one group, in memory. What is appended is durable at once.

    A generation that another one follows is dropped, as compaction does.
    """

    is_being_repaired = False

    def __init__(self) -> None:
        self._batches: list[tuple[int, bytes | LateBatch]] = []  # with the offset of the first record
        self.start_offset = 0
        self.end_offset = 0
        self.durable_offset = 0

    def append(
        self, batch: bytes | LateBatch, *, now_ms: int, timestamp_ms: int, is_awaited: bool = True
    ) -> int:
        base_offset = self.end_offset
        count = 1
        if not isinstance(batch, LateBatch):
            count = parse_header(batch).next_offset
        elif self._batches and isinstance(self._batches[-1][1], LateBatch):
            self._batches.pop()
        self._batches.append((base_offset, batch))
        self.end_offset = self.durable_offset = base_offset + count
        return base_offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        found: list[bytes] = []
        size = 0
        for base_offset, batch in self._batches:
            if base_offset < offset:
                continue
            stamped = bytearray(batch.encoded() if isinstance(batch, LateBatch) else batch)
            stamp(stamped, base_offset, 0)
            if found and size + len(stamped) > max_bytes:
                break
            found.append(bytes(stamped))
            size += len(stamped)
        return b"".join(found)

    def flush(self) -> None:
        """Everything is durable."""

    def cut_back(self) -> None:
        """Nothing is not durable."""
