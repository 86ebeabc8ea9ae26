"""The shape of a record batch, format v2, and the record it carries: what both cores agree on."""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

Header = tuple[str, bytes | None]

MAGIC: Final = 2

# Positions inside a batch.
BASE_OFFSET_AT: Final = 0
LENGTH_AT: Final = 8
LEADER_EPOCH_AT: Final = 12
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21  # the checksum covers everything from here on
LAST_OFFSET_DELTA_AT: Final = 23
BASE_TIMESTAMP_AT: Final = 27
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_ID_AT: Final = 43
PRODUCER_EPOCH_AT: Final = 51
BASE_SEQUENCE_AT: Final = 53
RECORD_COUNT_AT: Final = 57
RECORDS_AT: Final = 61

HEADER_BYTES: Final = RECORDS_AT
LENGTH_OVERHEAD_BYTES: Final = 12  # base offset and length: what `batch_length` does not count
MIN_BATCH_LENGTH: Final = HEADER_BYTES - LENGTH_OVERHEAD_BYTES
MIN_RECORD_BYTES: Final = 7  # length, attributes, two deltas, key, value, header count: a byte each

HEADER: Final = Struct(">qiibIhiqqqhii")

# Bits of the attributes.
CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

MAX_INT32: Final = (1 << 31) - 1
MAX_INT64: Final = (1 << 63) - 1
MIN_INT64: Final = -(1 << 63)


class Record(NamedTuple):
    """One record as a reader sees it: absolute offset, absolute time."""

    offset: int
    timestamp_ms: int
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()
