"""Batches of one record, and where a batch is in its log."""

from __future__ import annotations

from struct import Struct
from typing import Final

from klamm.protocol.types import Buffer
from klamm.records._pure import hashes
from klamm.records._pure.region import encode_record
from klamm.records.layout import HEADER_BYTES, LEADER_EPOCH_AT, LENGTH_OVERHEAD_BYTES, MAGIC, MAX_INT32

# The two parts of a header: up to the checksum, and what it covers.
_START: Final = Struct(">qiibI")
_COVERED: Final = Struct(">hiqqqhii")
_OFFSET: Final = Struct(">q")
_EPOCH: Final = Struct(">i")


def encode_one(
    key: Buffer | None,
    value: Buffer | None,
    timestamp_ms: int,
    producer_id: int = -1,
    producer_epoch: int = -1,
    attributes: int = 0,
) -> bytes:
    """A batch of one record at offset 0, without headers, a sequence or compression.

    Raises OverflowError if it is too large.
    """
    region = encode_record(0, 0, key, value, ())
    batch_length = HEADER_BYTES - LENGTH_OVERHEAD_BYTES + len(region)
    if batch_length > MAX_INT32 - LENGTH_OVERHEAD_BYTES:
        raise OverflowError(f"a batch of {batch_length} bytes exceeds its length field")
    covered = _COVERED.pack(attributes, 0, timestamp_ms, timestamp_ms, producer_id, producer_epoch, -1, 1)
    checksum = hashes.quick_crc32c(region, hashes.quick_crc32c(covered, 0))
    return b"".join((_START.pack(0, batch_length, -1, MAGIC, checksum), covered, region))


def stamped(batch: Buffer, base_offset: int, leader_epoch: int) -> bytes:
    """A copy of a batch with the offset and the leader epoch that it has in its log."""
    if len(batch) < HEADER_BYTES:
        raise ValueError(f"{len(batch)} bytes are not a batch")
    copy = bytearray(batch)
    _OFFSET.pack_into(copy, 0, base_offset)
    _EPOCH.pack_into(copy, LEADER_EPOCH_AT, leader_epoch)
    return bytes(copy)
