"""Producer state as a file: `<offset>.snapshot`, the state of everything below that offset.

A snapshot holds one batch for each producer, so a repeat of an older one is no longer known after a reload.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final

from klamm.protocol.errors import DecodeError
from klamm.records.checksum import crc32c
from klamm.storage.producer_state import NONE, BatchSummary, ProducerEntry

_HEAD: Final = Struct(">hI")  # version, checksum of all behind it
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")
_VERSION: Final = 1


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The file's bytes."""
    packed = []
    for entry in entries:
        last = entry.batches[-1] if entry.batches else BatchSummary(NONE, NONE, 0, NONE)
        packed.append(
            _ENTRY.pack(
                entry.producer_id,
                entry.epoch,
                last.last_sequence,
                last.last_offset,
                last.offset_delta,
                entry.last_timestamp_ms,
                entry.coordinator_epoch,
                entry.txn_first_offset,
            )
        )
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """The producers of a snapshot; DecodeError when it is damaged."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise DecodeError(f"a producer snapshot of {len(data)} bytes")
    version, checksum = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise DecodeError(f"a producer snapshot of version {version}, {_VERSION} is known")
    if crc32c(memoryview(data)[_HEAD.size :]) != checksum:
        raise DecodeError("a producer snapshot whose checksum does not match")
    (count,) = _COUNT.unpack_from(data, _HEAD.size)
    body = memoryview(data)[_HEAD.size + _COUNT.size :]
    if count * _ENTRY.size != len(body):
        raise DecodeError(f"a producer snapshot that promises {count} entries in {len(body)} bytes")
    entries = []
    for (
        producer_id,
        epoch,
        last_sequence,
        last_offset,
        offset_delta,
        timestamp_ms,
        coordinator_epoch,
        txn_first_offset,
    ) in _ENTRY.iter_unpack(body):
        entry = ProducerEntry(
            producer_id,
            epoch,
            last_timestamp_ms=timestamp_ms,
            coordinator_epoch=coordinator_epoch,
            txn_first_offset=txn_first_offset,
        )
        if last_offset >= 0:
            entry.batches.append(BatchSummary(last_sequence, last_offset, offset_delta, timestamp_ms))
        entries.append(entry)
    return entries
