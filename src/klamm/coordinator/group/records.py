"""`__consumer_offsets` as bytes: Kafka's own formats. All versions are read, the current ones written.

The version of a key is the kind of record: 0 and 1 an offset, 2 a group, 3 to 8 and 16 the consumer protocol
(`consumer.records`); others belong to protocols that klamm does not have. string = int16 length (-1 null) +
UTF-8, bytes = int32 length, array = int32 count; version 4 of the values is flexible.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct, error
from typing import Final, NamedTuple, TypeGuard

from klamm.coordinator.group.consumer.records import (
    KEY_TYPES,
    decode_consumer_record,
    encode_consumer_record,
)
from klamm.coordinator.group.remembered import (
    GroupForgotten,
    GroupRecord,
    GroupRegistered,
    OffsetCommitted,
    OffsetForgotten,
    OffsetPended,
    PendedBlock,
    RegisteredMember,
    TransactionEnded,
)
from klamm.coordinator.runtime.log import AppendRefusedError
from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.protocol.primitives import Reader, Writer
from klamm.protocol.types import ZERO_ID
from klamm.records.batch import set_transactional
from klamm.records.compression import Codec
from klamm.records.core import encode_commits
from klamm.records.layout import CommitBlock, OffsetCommitValue
from klamm.records.markers import ControlType, encode_marker
from klamm.records.record import Record, encode_batch

OFFSET_KEY_VERSIONS: Final = (0, 1)
GROUP_KEY_VERSION: Final = 2
HIGHEST_VALUE_VERSION: Final = 4

_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")
_OFFSET_HEAD: Final = Struct(">hqi")  # version, offset, leader epoch
_OLD_OFFSET_HEAD: Final = Struct(">hq")
_TOPIC_ID_TAG: Final = b"\x01\x00\x10"  # one tag, number 0, 16 bytes
_SMALLEST_MEMBER_BYTES: Final = 10
_BASE_SEQUENCE: Final = 0  # of every batch, with and without a producer id: what Kafka's coordinator writes


class UnknownGroupKey(NamedTuple):
    """A record of an unknown kind."""

    version: int


# --- writing -----------------------------------------------------------------------------------------


def encode_records(
    records: Sequence[GroupRecord], timestamp_ms: int, codec: int = Codec.NONE, base_offset: int = 0
) -> bytes:
    """Records as one batch. Raises AppendRefusedError when one of them cannot be written at all."""
    first = records[0]
    if type(first) is TransactionEnded:
        raise ValueError("a marker must be encoded as a batch of its own")
    try:
        if not codec:
            if type(first) is CommitBlock and _are_blocks(records):
                return encode_commits(records, timestamp_ms)
            pended = [record.block for record in records if type(record) is PendedBlock]
            if type(first) is PendedBlock and len(pended) == len(records):
                batch = bytearray(encode_commits(pended, timestamp_ms))
                set_transactional(batch, first.producer_id, first.producer_epoch)
                return bytes(batch)
        encoded = [
            Record(offset, timestamp_ms, *encode_record(record))
            for offset, record in enumerate(_one_by_one(records), base_offset)
        ]
    except (error, OverflowError, UnicodeEncodeError) as fault:
        # Names from clients may be longer than the format allows.
        raise AppendRefusedError(ErrorCode.message_too_large, f"encoding records failed: {fault}") from fault
    if isinstance(first, OffsetPended | PendedBlock):
        return encode_batch(
            encoded,
            codec=codec,
            base_offset=base_offset,
            producer_id=first.producer_id,
            producer_epoch=first.producer_epoch,
            base_sequence=_BASE_SEQUENCE,
            transactional=True,
        )
    return encode_batch(encoded, codec=codec, base_offset=base_offset, base_sequence=_BASE_SEQUENCE)


def _are_blocks(records: Sequence[GroupRecord]) -> TypeGuard[Sequence[CommitBlock]]:
    return len(records) == 1 or all(type(record) is CommitBlock for record in records)


def encode_end(ended: TransactionEnded, timestamp_ms: int, producer_epoch: int = 0) -> bytes:
    """The control batch that ends a transaction, as the transaction coordinator writes it."""
    return encode_marker(
        ControlType.COMMIT if ended.is_commit else ControlType.ABORT,
        producer_id=ended.producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=0,
        timestamp_ms=timestamp_ms,
    )


def _one_by_one(records: Sequence[GroupRecord]) -> Iterator[GroupRecord]:
    for record in records:
        if isinstance(record, CommitBlock):
            yield from _of_block(record)
        elif isinstance(record, PendedBlock):
            for one in _of_block(record.block):
                yield OffsetPended(*one, record.producer_id, record.producer_epoch)
        else:
            yield record


def _of_block(block: CommitBlock) -> Iterator[OffsetCommitted]:
    group_id, topic, topic_id, commits, commit_ms, expire_ms = block
    for partition, offset, leader_epoch, metadata in commits:
        committed = OffsetCommitValue(offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id)
        yield OffsetCommitted(group_id, topic, partition, committed)


def encode_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Key and value of one record; None is a tombstone."""
    match record:
        case OffsetCommitted():
            key = offset_key(record.group_id, record.topic, record.partition)
            return key, encode_offset(record.committed)
        case OffsetForgotten():
            return offset_key(record.group_id, record.topic, record.partition), None
        case GroupRegistered():
            return group_key(record.group_id), encode_group(record)
        case GroupForgotten():
            return group_key(record.group_id), None
        case OffsetPended():
            key = offset_key(record.group_id, record.topic, record.partition)
            if record.committed is None:
                return key, None
            return key, encode_offset(record.committed._replace(topic_id=ZERO_ID))  # as Kafka does
        case TransactionEnded():
            raise ValueError("a marker is not a keyed record")
        case CommitBlock() | PendedBlock():
            raise ValueError("a block holds several records")
        case _:
            return encode_consumer_record(record)


def _string(text: str) -> bytes:
    raw = text.encode()
    length = len(raw)
    if length > 0x7FFF:
        raise OverflowError(f"string of {length} bytes exceeds the limit of 32767")
    return length.to_bytes(2, "big") + raw


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    return b"\x00\x01" + _string(group_id) + _string(topic) + _INT32.pack(partition)


def group_key(group_id: str) -> bytes:
    return b"\x00\x02" + _string(group_id)


def encode_offset(committed: OffsetCommitValue) -> bytes:
    """Version 4 with the topic id as a tag; version 1 when the offset has an expiry of its own."""
    offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id = committed
    if expire_ms != -1:
        return b"".join(
            (
                _OLD_OFFSET_HEAD.pack(1, offset),
                _string(metadata),
                _INT64.pack(commit_ms),
                _INT64.pack(expire_ms),
            )
        )
    text = Writer().compact_string(metadata).getvalue()
    return _OFFSET_HEAD.pack(4, offset, leader_epoch) + text + _INT64.pack(commit_ms) + _tags(topic_id)


def _tags(topic_id: bytes) -> bytes:
    return b"\x00" if topic_id == ZERO_ID else _TOPIC_ID_TAG + topic_id


def encode_group(group: GroupRegistered) -> bytes:
    """Version 3."""
    writer = Writer().int16(3)
    writer.raw(_string(group.protocol_type)).int32(group.generation)
    writer.raw(_nullable(group.protocol_name)).raw(_nullable(group.leader_id))
    writer.int64(group.state_timestamp_ms).int32(len(group.members))
    parts = [writer.getvalue()]
    middles: dict[tuple[object, ...], bytes] = {}  # equal for most members of one application
    for member in group.members:
        middle = middles.get(alike := member[1:-1])
        if middle is None:
            middle = middles[alike] = _encode_middle(member)
        assignment = member[-1]
        parts += (_string(member[0]), middle, len(assignment).to_bytes(4, "big"), assignment)
    return b"".join(parts)


def _encode_middle(member: RegisteredMember) -> bytes:
    """The fields between a member's id and its assignment."""
    return b"".join(
        (
            _nullable(member.group_instance_id),
            _string(member.client_id),
            _string(member.client_host),
            _INT32.pack(member.rebalance_timeout_ms),
            _INT32.pack(member.session_timeout_ms),
            _INT32.pack(len(member.subscription)),
            member.subscription,
        )
    )


def _nullable(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else _string(text)


# --- reading -----------------------------------------------------------------------------------------


def decode_record(key: bytes | None, value: bytes | None) -> GroupRecord | UnknownGroupKey:
    """One record outside a transaction. Raises DecodeError."""
    if key is None:
        raise DecodeError("record without a key")
    reader = Reader(key)
    version = reader.int16()
    if version in OFFSET_KEY_VERSIONS:
        group_id, topic, partition = reader.string(), reader.string(), reader.int32()
        if value is None:
            return OffsetForgotten(group_id, topic, partition)
        return OffsetCommitted(group_id, topic, partition, decode_offset(value))
    if version == GROUP_KEY_VERSION:
        group_id = reader.string()
        return GroupForgotten(group_id) if value is None else decode_group(group_id, value)
    if version in KEY_TYPES:
        return decode_consumer_record(version, reader, value)
    return UnknownGroupKey(version)


def decode_offset(value: bytes) -> OffsetCommitValue:
    """An offset in any version. Raises DecodeError."""
    reader = Reader(value)
    version = _value_version(reader, "offset")
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.compact_string() if version >= 4 else reader.string()
    commit_ms = reader.int64()
    expire_ms = reader.int64() if version == 1 else -1
    topic_id = ZERO_ID
    if version >= 4:
        topic_id = reader.tags().get(0, ZERO_ID)
        if len(topic_id) != 16:
            raise DecodeError(f"topic id has {len(topic_id)} bytes, expected 16")
    return OffsetCommitValue(offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id)


def decode_group(group_id: str, value: bytes) -> GroupRegistered:
    """A group in any version. Raises DecodeError."""
    reader = Reader(value)
    version = _value_version(reader, "group")
    is_flexible = version >= 4
    string = reader.compact_string if is_flexible else reader.string
    nullable = reader.compact_nullable_string if is_flexible else reader.nullable_string
    protocol_type = string()
    generation = reader.int32()
    protocol_name = nullable()
    leader_id = nullable()
    timestamp_ms = reader.int64() if version >= 2 else -1
    count = (reader.compact_array_length if is_flexible else reader.array_length)(_SMALLEST_MEMBER_BYTES)
    members = tuple([_decode_member(reader, version) for _ in range(count)])
    if is_flexible:
        reader.tags()
    return GroupRegistered(
        group_id, protocol_type, generation, protocol_name, leader_id, timestamp_ms, members
    )


def _decode_member(reader: Reader, version: int) -> RegisteredMember:
    is_flexible = version >= 4
    string = reader.compact_string if is_flexible else reader.string
    raw = reader.compact_bytes if is_flexible else reader.byte_string
    member_id = string()
    instance_id = None
    if version >= 3:
        instance_id = reader.compact_nullable_string() if is_flexible else reader.nullable_string()
    client_id = string()
    client_host = string()
    rebalance_ms = reader.int32() if version >= 1 else None
    session_ms = reader.int32()
    subscription = raw()
    assignment = raw()
    if is_flexible:
        reader.tags()
    return RegisteredMember(
        member_id,
        instance_id,
        client_id,
        client_host,
        session_ms if rebalance_ms is None else rebalance_ms,
        session_ms,
        subscription,
        assignment,
    )


def _value_version(reader: Reader, kind: str) -> int:
    version = reader.int16()
    if not 0 <= version <= HIGHEST_VALUE_VERSION:
        raise DecodeError(f"unsupported {kind} value version {version}")
    return version
