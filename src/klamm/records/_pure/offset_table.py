"""Committed offsets by topic: as a client commits them, as a coordinator stores and logs them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import Final

from klamm.protocol.errors import DecodeError
from klamm.protocol.types import ZERO_ID, Buffer
from klamm.records._pure import hashes
from klamm.records._pure.region import decode_region, encode_record
from klamm.records._pure.walk import check_position, fault, parse_header
from klamm.records.layout import (
    ATTRIBUTES_AT,
    CRC_AT,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAX_INT64,
    AskedPartition,
    CommitBlock,
    OffsetCommitValue,
    PartitionCommit,
    Record,
    ScanEnd,
    Stored,
)

_INT32: Final = Struct(">i")
_UINT32: Final = Struct(">I")
_OFFSET_KEY: Final = b"\x00\x01"
_HEAD: Final = Struct(">hqiB")  # of a value: version 4, offset, leader epoch, bytes of the metadata plus one
_TAIL_BYTES: Final = 9  # of a value: commit timestamp, no tags
_TOPIC_ID_TAG: Final = b"\x01\x00\x10"  # one tag, number 0, 16 bytes
_PARTITION_BYTES: Final = 4  # at the end of a key
_MIN_KEY_BYTES: Final = len(_OFFSET_KEY) + _PARTITION_BYTES


class TopicCommits:
    """The committed offsets of the partitions of one topic, in request order.

    Raises OverflowError for a number that does not fit the wire format.
    """

    __slots__ = ("_rows", "has_metadata", "highest", "lowest")

    def __init__(self, asked: Iterable[AskedPartition]) -> None:
        self._rows = [
            PartitionCommit(
                each.partition_index,
                each.committed_offset,
                each.committed_leader_epoch,
                each.committed_metadata or "",
            )
            for each in asked
        ]
        for partition, offset, leader_epoch, _ in self._rows:
            _check_fit(partition, 32)
            _check_fit(offset, 64)
            _check_fit(leader_epoch, 32)
        partitions = self.partitions()
        self.lowest = min(partitions, default=0)
        self.highest = max(partitions, default=-1)
        self.has_metadata = any(row.committed_metadata for row in self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[PartitionCommit]:
        return iter(self._rows)

    def __getitem__(self, at: int) -> PartitionCommit:
        if not 0 <= at < len(self._rows):
            raise IndexError(f"partition {at} of {len(self._rows)}")
        return self._rows[at]

    def partitions(self) -> list[int]:
        return [row.partition_index for row in self._rows]

    def partition_bytes(self) -> bytes:
        """Their numbers as bytes: those of other partitions, or in another order, are different."""
        return b"".join(row.partition_index.to_bytes(4, "big", signed=True) for row in self._rows)


class Replaced:
    """The values of partitions before a commit; other partitions are absent."""

    __slots__ = ("_before",)

    def __init__(self, before: dict[int, Stored | None]) -> None:
        self._before = before

    def __contains__(self, partition: int) -> bool:
        return partition in self._before

    def get(self, partition: int) -> Stored | None:
        """What the partition had; None when it had nothing, or is not known here."""
        return self._before.get(partition)


class OffsetTable:
    """The offsets of one topic that one group has committed, by partition."""

    __slots__ = ("_stored",)

    def __init__(self) -> None:
        self._stored: dict[int, Stored] = {}

    def __len__(self) -> int:
        return len(self._stored)

    def __contains__(self, partition: int) -> bool:
        return partition in self._stored

    def __eq__(self, other: object) -> bool:
        return self.items() == other.items() if isinstance(other, OffsetTable) else NotImplemented

    __hash__ = None  # type: ignore[assignment] # it changes

    def partitions(self) -> list[int]:
        """In ascending order."""
        return sorted(self._stored)

    def items(self) -> list[tuple[int, Stored]]:
        """By partition, in ascending order."""
        return sorted(self._stored.items())

    def partitions_of_other_topics(self, topic_id: bytes) -> list[int]:
        """Those whose offset was committed for a topic of another id; in ascending order."""
        known = (topic_id, ZERO_ID)
        return sorted(
            partition for partition, (_, committed) in self._stored.items() if committed.topic_id not in known
        )

    def get(self, partition: int) -> Stored | None:
        return self._stored.get(partition)

    def put(self, partition: int, log_offset: int, committed: OffsetCommitValue) -> None:
        self._stored[partition] = (log_offset, committed)

    def remove(self, partition: int) -> bool:
        """Whether there was something to remove."""
        return self._stored.pop(partition, None) is not None

    def replaced_by(self, commits: TopicCommits) -> Replaced:
        """What these commits will replace."""
        return Replaced({partition: self._stored.get(partition) for partition in commits.partitions()})

    def store(
        self, commits: TopicCommits, log_offset: int, commit_ms: int, expire_ms: int, topic_id: bytes
    ) -> None:
        """Store commits whose records are consecutive in the log, from this offset on."""
        if log_offset > MAX_INT64 - len(commits):
            raise OverflowError(f"{len(commits)} records from log offset {log_offset} exceed 64 bits")
        for at, (partition, offset, leader_epoch, metadata) in enumerate(commits, log_offset):
            committed = OffsetCommitValue(offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id)
            self._stored[partition] = (at, committed)


def encode_commits(blocks: Sequence[CommitBlock], timestamp_ms: int) -> bytes:
    """Blocks as one uncompressed batch of records; what is newest of Kafka's formats that holds each.

    Raises OverflowError or UnicodeEncodeError for a text that does not fit the format.
    """
    region = bytearray()
    count = 0
    for group_id, topic, topic_id, commits, commit_ms, expire_ms in blocks:
        prefix = _OFFSET_KEY + _string(group_id) + _string(topic)
        if len(topic_id) != len(ZERO_ID):
            raise ValueError(f"{topic_id!r} is no topic id")
        tags = b"\x00" if topic_id == ZERO_ID else _TOPIC_ID_TAG + topic_id
        for partition, offset, leader_epoch, metadata in commits:
            if expire_ms != -1:
                value = b"".join(
                    (
                        b"\x00\x01",
                        offset.to_bytes(8, "big", signed=True),
                        _string(metadata),
                        commit_ms.to_bytes(8, "big", signed=True),
                        expire_ms.to_bytes(8, "big", signed=True),
                    )
                )
            else:
                value = b"".join(
                    (
                        b"\x00\x04",
                        offset.to_bytes(8, "big", signed=True),
                        leader_epoch.to_bytes(4, "big", signed=True),
                        _compact_string(metadata),
                        commit_ms.to_bytes(8, "big", signed=True),
                        tags,
                    )
                )
            region += encode_record(0, count, prefix + _INT32.pack(partition), value, ())
            count += 1
    length = HEADER_BYTES - LENGTH_OVERHEAD_BYTES + len(region)
    head = HEADER.pack(0, length, -1, MAGIC, 0, 0, count - 1, timestamp_ms, timestamp_ms, -1, -1, 0, count)
    batch = bytearray(head) + region
    _UINT32.pack_into(batch, CRC_AT, hashes.quick_crc32c(memoryview(batch)[ATTRIBUTES_AT:], 0))
    return bytes(batch)


def _check_fit(number: int, bits: int) -> None:
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise OverflowError(f"{number} has more than {bits} bits")


def _string(text: str) -> bytes:
    raw = text.encode()
    if len(raw) > 0x7FFF:
        raise OverflowError(f"a string of {len(raw)} bytes")
    return len(raw).to_bytes(2, "big") + raw


def _compact_string(text: str) -> bytes:
    raw = text.encode()
    length = bytearray()
    left = len(raw) + 1
    while left >= 0x80:
        length.append(left & 0x7F | 0x80)
        left >>= 7
    length.append(left)
    return bytes(length) + raw


def store_batches(batches: Buffer, position: int, tables: dict[bytes, OffsetTable]) -> tuple[int, int]:
    """Store batches as long as they have only plain offset records of the tables.

    Returns the position of the first batch that needs inspection, and the offset after the batch before it;
    -1 when there is none. What is plain at the beginning of that batch is stored already, and may be again.
    """
    end = len(batches)
    check_position(position, end)
    next_offset = -1
    while fault(batches, position, end) is ScanEnd.WHOLE:
        header = parse_header(batches, position)
        batch_end = position + header.size_bytes
        if header.attributes & ~LOG_APPEND_TIME_BIT or header.last_offset == MAX_INT64:
            break
        region = memoryview(batches)[position + HEADER_BYTES : batch_end]
        try:
            if any(store_records(region, header.record_count, header.base_offset, tables)):
                break
        except DecodeError:
            break
        position, next_offset = batch_end, header.next_offset
    return position, next_offset


def store_records(
    region: Buffer, count: int, base_offset: int, tables: dict[bytes, OffsetTable]
) -> Iterator[Record]:
    """Store the plain offset records of a region in their tables; yields the records that need inspection.

    `tables` go by what the keys of their records begin with. A record is yielded, after everything before
    it is stored and before anything behind it is, unless it is an offset in a format that this function
    knows, for one of the tables. The caller may then change `tables`. DecodeError when the region is not
    valid; nothing of it was yielded or stored then.
    """
    for record in decode_region(region, count, base_offset, 0):
        key, value = record.key, record.value
        if key is not None and value is not None and key[:2] == _OFFSET_KEY and len(key) >= _MIN_KEY_BYTES:
            table = tables.get(key[:-_PARTITION_BYTES])
            committed = None if table is None else _plain(value)
            if table is not None and committed is not None:
                table.put(_INT32.unpack_from(key, len(key) - _PARTITION_BYTES)[0], record.offset, committed)
                continue
        yield record


def _plain(value: bytes) -> OffsetCommitValue | None:
    """An offset in version 4, with short metadata and with nothing but a topic id behind it; else None."""
    if len(value) <= _HEAD.size:
        return None
    version, offset, leader_epoch, metadata_bytes = _HEAD.unpack_from(value)
    metadata_end = _HEAD.size + metadata_bytes - 1
    tail = value[metadata_end:]
    if version != 4 or not 0 < metadata_bytes < 0x80:
        return None
    if len(tail) == _TAIL_BYTES and tail[8:] == b"\x00":
        topic_id = ZERO_ID
    elif len(tail) == _TAIL_BYTES + 18 and tail[8:11] == _TOPIC_ID_TAG:
        topic_id = tail[11:]
    else:
        return None
    try:
        metadata = value[_HEAD.size : metadata_end].decode()
    except UnicodeDecodeError:
        return None
    commit_ms = int.from_bytes(tail[:8], "big", signed=True)
    return OffsetCommitValue(offset, leader_epoch, metadata, commit_ms, -1, topic_id)
