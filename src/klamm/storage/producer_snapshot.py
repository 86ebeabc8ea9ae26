"""Producer state as a file: `<offset>.snapshot`, the state of everything below that offset.

Kafka writes one entry for each producer, its last batch, and loses the others at a reload: a batch whose
response a crash lost is then rejected as out of order when it is sent again. klamm writes an entry for each
batch that it tracks, oldest first. Kafka reads such a file too: it uses the last entry of a producer.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final

from klamm.protocol.errors import DecodeError
from klamm.records.checksum import crc32c
from klamm.storage.producer_state import NONE, BatchSummary, ProducerEntry

_HEAD: Final = Struct(">hI")  # version, checksum of the rest
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")
_VERSION: Final = 1


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The file's bytes."""
    packed = []
    for entry in entries:
        batches = entry.summaries() or [BatchSummary(NONE, NONE, 0, NONE)]
        packed += [
            _ENTRY.pack(
                entry.producer_id,
                entry.epoch,
                batch.last_sequence,
                batch.last_offset,
                batch.offset_delta,
                entry.last_timestamp_ms if batch is batches[-1] else batch.timestamp_ms,
                entry.coordinator_epoch,
                entry.txn_first_offset,
            )
            for batch in batches
        ]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """The producers of a snapshot; DecodeError when it is damaged."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise DecodeError(f"invalid producer snapshot: {len(data)} bytes")
    version, checksum = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise DecodeError(f"invalid producer snapshot: version {version}, expected {_VERSION}")
    if crc32c(memoryview(data)[_HEAD.size :]) != checksum:
        raise DecodeError("invalid producer snapshot: checksum mismatch")
    (count,) = _COUNT.unpack_from(data, _HEAD.size)
    body = memoryview(data)[_HEAD.size + _COUNT.size :]
    if count * _ENTRY.size != len(body):
        raise DecodeError(f"invalid producer snapshot: {count} entries in {len(body)} bytes")
    entries: dict[int, ProducerEntry] = {}
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
        known = entries.get(producer_id)
        entry = ProducerEntry(
            producer_id,
            epoch,
            known.batches if known is not None and known.epoch == epoch else [],
            last_timestamp_ms=timestamp_ms,
            coordinator_epoch=coordinator_epoch,
            txn_first_offset=txn_first_offset,
        )
        if last_offset >= 0:
            entry.add(last_sequence, last_offset, offset_delta, timestamp_ms)
        entries[producer_id] = entry
    return list(entries.values())
