"""A partition's transactions as its log tells them: which are open, and how the others ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from klamm.records.batch import BatchHeader
from klamm.records.markers import decode_marker

_SEQUENCES = 1 << 31


class Ended(NamedTuple):
    """A transaction that a marker ended."""

    producer_id: int
    first_offset: int
    marker_offset: int
    is_commit: bool


class Marker(NamedTuple):
    """The last marker of a producer."""

    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int


@dataclass(slots=True)
class PartitionModel:
    """Reads one log batch by batch, in the order of offsets, and compares it with the rules."""

    has_sequences: bool = True  # offset commits begin at 0 with each request
    open: dict[int, int] = field(default_factory=dict)  # producer id -> first offset
    outcomes: dict[int, bool | None] = field(default_factory=dict)  # of transactional batches; None: open
    ended: list[Ended] = field(default_factory=list)
    markers: dict[int, Marker] = field(default_factory=dict)
    _bases: dict[int, list[int]] = field(default_factory=dict)  # of each open transaction
    _epochs: dict[int, int] = field(default_factory=dict)
    _next_sequences: dict[tuple[int, int], int] = field(default_factory=dict)
    _next_offset: int = 0
    _has_gap: bool = False  # batches were deleted as soon as they were safe: nothing is known of them

    def add(self, header: BatchHeader, batch: bytes) -> Iterator[str]:
        """The next batch; what is wrong with it."""
        if header.base_offset > self._next_offset:
            self._has_gap = True
            self._next_sequences.clear()
        self._next_offset = header.last_offset + 1
        producer_id = header.producer_id
        if producer_id < 0:
            return
        epoch = header.producer_epoch
        if epoch < self._epochs.get(producer_id, -1):
            yield f"epoch {epoch} of producer {producer_id} after {self._epochs[producer_id]}"
        self._epochs[producer_id] = epoch
        if header.is_control:
            yield from self._end(header, batch)
            return
        if self.has_sequences:
            yield from self._check_sequence(header)
        if header.is_transactional:
            self.open.setdefault(producer_id, header.base_offset)
            self.outcomes[header.base_offset] = None
            self._bases.setdefault(producer_id, []).append(header.base_offset)
        elif producer_id in self.open:
            yield f"a batch outside the open transaction of producer {producer_id}"

    def _check_sequence(self, header: BatchHeader) -> Iterator[str]:
        key = (header.producer_id, header.producer_epoch)
        expected = self._next_sequences.get(key, None if self._has_gap else 0)
        if expected is not None and header.base_sequence != expected:
            yield f"sequence {header.base_sequence} of {key} where {expected} is next"
        self._next_sequences[key] = (header.last_sequence + 1) % _SEQUENCES

    def _end(self, header: BatchHeader, batch: bytes) -> Iterator[str]:
        marker = decode_marker(batch)
        assert marker is not None
        producer_id = header.producer_id
        last = self.markers.get(producer_id)
        if last is not None and marker.coordinator_epoch < last.coordinator_epoch:
            yield f"coordinator epoch {marker.coordinator_epoch} in a marker after {last.coordinator_epoch}"
        self.markers[producer_id] = Marker(header.producer_epoch, marker.is_commit, marker.coordinator_epoch)
        first_offset = self.open.pop(producer_id, None)
        if first_offset is not None:
            self.ended.append(Ended(producer_id, first_offset, header.base_offset, marker.is_commit))
        for base in self._bases.pop(producer_id, ()):
            self.outcomes[base] = marker.is_commit

    @property
    def first_open_offset(self) -> int | None:
        return min(self.open.values(), default=None)
