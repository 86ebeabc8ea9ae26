"""The layout of record batches (format v2) and their records, shared by both cores."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from klamm.protocol.errors import DecodeError
from klamm.protocol.types import ZERO_ID

if TYPE_CHECKING:
    from klamm.records._pure.offset_table import TopicCommits

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

MIN_COMMIT_BYTES: Final = 14  # partition, offset, length of the metadata: in an OffsetCommit request

HEADER: Final = Struct(">qiibIhiqqqhii")

# Bits of the attributes.
CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40
KNOWN_ATTRIBUTES: Final = 0x7F

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


class OffsetCommitValue(NamedTuple):
    """What a client committed for one partition."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int = -1  # -1: by the group's retention
    topic_id: bytes = ZERO_ID


Stored = tuple[int, OffsetCommitValue]  # the offset of its record in the log, and what was committed


class AskedPartition(Protocol):
    """One partition of an OffsetCommit request."""

    @property
    def partition_index(self) -> int: ...
    @property
    def committed_offset(self) -> int: ...
    @property
    def committed_leader_epoch(self) -> int: ...
    @property
    def committed_metadata(self) -> str | None: ...


class PartitionCommit(NamedTuple):
    """One partition of a decoded OffsetCommit request."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str


class CommitBlock(NamedTuple):
    """Commits of one topic as they are logged: a record for each partition."""

    group_id: str
    topic: str
    topic_id: bytes
    commits: TopicCommits
    commit_ms: int
    expire_ms: int


class TruncatedError(DecodeError):
    """The buffer ends before the batch does; the rest may follow."""


class OldFormatError(DecodeError):
    """A message of magic 0 or 1, which is not supported."""


class TimestampType(IntEnum):
    """Whether a record's timestamp is the producer's or the broker's."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, in wire order."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def size_bytes(self) -> int:
        """The whole batch, from its base offset to its last record."""
        return self.batch_length + LENGTH_OVERHEAD_BYTES

    @property
    def codec(self) -> int:
        """The compression codec's number; 5 to 7 are undefined."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> TimestampType:
        if self.attributes & LOG_APPEND_TIME_BIT:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether the base timestamp says when the cleaner may drop the batch's tombstones."""
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def last_sequence(self) -> int:
        """Sequences run from 0 to 2147483647 and start again at 0; -1 for a batch without one."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & MAX_INT32


class ScanEnd(IntEnum):
    """Why a scan of batches stopped where it did."""

    WHOLE = 0  # the buffer ends where a batch ends
    TRUNCATED = 1  # the buffer ends inside a batch
    LENGTH = 2  # an invalid length
    MAGIC = 3
    OFFSETS = 4  # negative, or beyond 64 bits
    CHECKSUM = 5


class Scan(NamedTuple):
    """The valid batches at the start of a buffer, where they end, and why the scan stopped there."""

    batches: list[tuple[int, BatchHeader]]
    end: int
    stopped_by: ScanEnd
