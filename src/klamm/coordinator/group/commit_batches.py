"""Commits as batches: a consumer commits the same partitions again and again, only the offsets differ."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812 - the module has no better name for it
from typing import Final, NamedTuple

from klamm.coordinator.group.records import encode_records
from klamm.coordinator.group.remembered import CommittedOffset, GroupRecord, OffsetCommitted
from klamm.protocol.types import ZERO_ID
from klamm.records.batch import BASE_TIMESTAMP_AT, HEADER_BYTES, reseal

MAX_SHAPES: Final = 4_096
MAX_RECORDS: Final = 64  # per shape: what many partitions take is not worth keeping

_TIMES: Final = Struct(">qq")  # the first and the highest timestamp stand side by side
_CHANGING: Final = Struct(">qiBq")  # offset, leader epoch, no metadata, commit timestamp
_NO_HEADERS_BYTES: Final = 1  # stand after the value

_Key = tuple[object, ...]


class _Shape(NamedTuple):
    """A batch of commits, and where in it each commit has what changes."""

    batch: bytes
    places: tuple[int, ...]


class CommitEncoder:
    """Encodes records as `encode_records` does, uncompressed; commits like earlier ones by their shape."""

    def __init__(self) -> None:
        self._shapes: dict[_Key, _Shape] = {}

    def encode(self, records: Sequence[GroupRecord], timestamp_ms: int) -> bytes:
        """One batch. Raises AppendRefusedError when a record cannot be written at all."""
        commits = _commits(records)
        if commits is None:
            return encode_records(records, timestamp_ms)
        key, values = commits
        shape = self._shapes.get(key)
        if shape is None:
            batch = encode_records(records, timestamp_ms)
            self._keep(key, _Shape(batch, _places(batch, values)))
            return batch
        filled = bytearray(shape.batch)
        change = _CHANGING.pack_into
        try:
            _TIMES.pack_into(filled, BASE_TIMESTAMP_AT, timestamp_ms, timestamp_ms)
            for place, (offset, leader_epoch, _, commit_ms, _, _) in zip(shape.places, values, strict=True):
                change(filled, place, offset, leader_epoch, 1, commit_ms)
        except StructError:
            return encode_records(records, timestamp_ms)  # says what is wrong
        reseal(filled)
        return bytes(filled)

    def _keep(self, key: _Key, shape: _Shape) -> None:
        if len(self._shapes) >= MAX_SHAPES:
            self._shapes.clear()
        self._shapes[key] = shape


def _commits(records: Sequence[GroupRecord]) -> tuple[_Key, list[CommittedOffset]] | None:
    """What makes two batches alike but for offsets and times, and those; None if it is no such batch."""
    if len(records) > MAX_RECORDS:
        return None
    group: object = None
    topic: object = None
    its_id: object = None
    key: list[object] = []
    values: list[CommittedOffset] = []
    for record in records:
        if type(record) is not OffsetCommitted:
            return None
        group_id, name, partition, committed = record
        _, _, metadata, _, expire_ms, topic_id = committed
        if metadata or expire_ms != -1:
            return None
        if name is not topic or topic_id is not its_id or group_id is not group:
            group, topic, its_id = group_id, name, topic_id
            key += (group_id, name, topic_id)
        key.append(partition)
        values.append(committed)
    return tuple(key), values


def _places(batch: bytes, values: Sequence[CommittedOffset]) -> tuple[int, ...]:
    """Where the changing part of each record's value begins."""
    places = []
    position = HEADER_BYTES
    for value in values:
        size = shift = 0
        while True:  # a zigzag varint, never negative
            byte = batch[position]
            position += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        position += size >> 1
        tags_bytes = 1 if value.topic_id == ZERO_ID else 19
        places.append(position - _NO_HEADERS_BYTES - tags_bytes - _CHANGING.size)
    assert position == len(batch), "the records fill the batch"
    return tuple(places)
