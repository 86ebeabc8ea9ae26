"""The records of the consumer protocol in `__consumer_offsets`, as Kafka writes them.

Key: int16 type, string group, then a string for a member (types 5, 7 and 8) or a regular expression (16).
Value: int16 version 0, then flexible fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from klamm.coordinator.group.consumer.remembered import (
    ClassicPart,
    ConsumerCurrent,
    ConsumerGroupEpoch,
    ConsumerMember,
    ConsumerRecord,
    ConsumerRegex,
    ConsumerTarget,
    ConsumerTargetEpoch,
    ConsumerTopicMetadata,
    CurrentValue,
    EpochValue,
    Holding,
    MemberValue,
    Partitions,
    ReconciliationState,
    RegexValue,
    TargetEpochValue,
)
from klamm.protocol.errors import DecodeError
from klamm.protocol.primitives import Reader, Writer

GROUP, TOPICS, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX = 3, 4, 5, 6, 7, 8, 16
KEY_TYPES: Final = frozenset({GROUP, TOPICS, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX})
Value = TypeVar("Value")
_ID_BYTES: Final = 16
_NO_TAGS: Final = b"\x00"
_STATES: Final = frozenset(ReconciliationState)


# --- writing -----------------------------------------------------------------------------------------


def encode_consumer_record(record: ConsumerRecord) -> tuple[bytes, bytes | None]:
    """Key and value; None is a tombstone."""
    match record:
        case ConsumerGroupEpoch():
            return _key(GROUP, record.group_id), record.value and _epoch(record.value)
        case ConsumerTopicMetadata():
            assert record.is_tombstone, "only the tombstone of type 4 is written"
            return _key(TOPICS, record.group_id), None
        case ConsumerMember():
            return _key(MEMBER, record.group_id, record.member_id), record.value and _member(record.value)
        case ConsumerTargetEpoch():
            return _key(TARGET_EPOCH, record.group_id), record.value and _target_epoch(record.value)
        case ConsumerTarget():
            key = _key(TARGET, record.group_id, record.member_id)
            return key, None if record.value is None else _target(record.value)
        case ConsumerCurrent():
            return _key(CURRENT, record.group_id, record.member_id), record.value and _current(record.value)
        case ConsumerRegex():
            return _key(REGEX, record.group_id, record.regex), record.value and _regex(record.value)


def _key(kind: int, *names: str) -> bytes:
    writer = Writer().int16(kind)
    for name in names:
        if len(name.encode()) > 0x7FFF:
            raise OverflowError(f"string of {len(name.encode())} bytes exceeds the limit of 32767")
        writer.string(name)
    return writer.getvalue()


def _value() -> Writer:
    return Writer().int16(0)


def _tagged(writer: Writer, tags: Mapping[int, bytes]) -> bytes:
    writer.uvarint(len(tags))
    for tag, content in tags.items():
        writer.uvarint(tag).uvarint(len(content)).raw(content)
    return writer.getvalue()


def _epoch(value: EpochValue) -> bytes:
    hashed = Writer().int64(value.metadata_hash).getvalue()
    return _tagged(_value().int32(value.epoch), {0: hashed} if value.metadata_hash else {})


def _target_epoch(value: TargetEpochValue) -> bytes:
    tags = {} if value.timestamp_ms is None else {0: Writer().int64(value.timestamp_ms).getvalue()}
    return _tagged(_value().int32(value.epoch), tags)


def _member(value: MemberValue) -> bytes:
    writer = _value().compact_string(value.instance_id).compact_string(value.rack_id)
    writer.compact_string(value.client_id).compact_string(value.client_host)
    writer.uvarint(len(value.topics) + 1)
    for topic in value.topics:
        writer.compact_string(topic)
    writer.compact_string(value.regex).int32(value.rebalance_timeout_ms).compact_string(value.assignor)
    return _tagged(writer, {} if value.classic is None else {0: _classic(value.classic)})


def _classic(part: ClassicPart) -> bytes:
    writer = Writer().int8(1).int32(part.session_timeout_ms).uvarint(len(part.protocols) + 1)
    for name, metadata in part.protocols:
        writer.compact_string(name).compact_bytes(metadata).raw(_NO_TAGS)
    return writer.raw(_NO_TAGS).getvalue()


def _target(value: Partitions) -> bytes:
    writer = _value().uvarint(len(value) + 1)
    for topic_id, partitions in value.items():
        writer.raw(topic_id)
        _numbers(writer, partitions)
        writer.raw(_NO_TAGS)
    return writer.raw(_NO_TAGS).getvalue()


def _numbers(writer: Writer, numbers: tuple[int, ...]) -> None:
    writer.uvarint(len(numbers) + 1)
    for number in numbers:
        writer.int32(number)


def _current(value: CurrentValue) -> bytes:
    writer = _value().int32(value.epoch).int32(value.previous_epoch).int8(value.state)
    for held in (value.assigned, value.pending):
        writer.uvarint(len(held) + 1)
        for topic_id, partitions in held.items():
            writer.raw(topic_id)
            _numbers(writer, tuple(partitions))
            epochs = Writer()
            _numbers(epochs, tuple(partitions.values()))
            _extend(writer, {0: epochs.getvalue()})
    return writer.raw(_NO_TAGS).getvalue()


def _extend(writer: Writer, tags: Mapping[int, bytes]) -> None:
    writer.uvarint(len(tags))
    for tag, content in tags.items():
        writer.uvarint(tag).uvarint(len(content)).raw(content)


def _regex(value: RegexValue) -> bytes:
    writer = _value().uvarint(len(value.topics) + 1)
    for topic in value.topics:
        writer.compact_string(topic)
    return writer.int64(value.version).int64(value.timestamp_ms).raw(_NO_TAGS).getvalue()


# --- reading -----------------------------------------------------------------------------------------


def decode_consumer_record(kind: int, key: Reader, value: bytes | None) -> ConsumerRecord:
    """A record whose key has one of `KEY_TYPES`, read up to the type. Raises DecodeError."""
    group_id = key.string()
    match kind:
        case 3:
            return ConsumerGroupEpoch(group_id, _read(kind, value, _read_epoch))
        case 4:
            return ConsumerTopicMetadata(group_id, value is None)
        case 5:
            return ConsumerMember(group_id, key.string(), _read(kind, value, _read_member))
        case 6:
            return ConsumerTargetEpoch(group_id, _read(kind, value, _read_target_epoch))
        case 7:
            return ConsumerTarget(group_id, key.string(), _read(kind, value, _read_target))
        case 8:
            return ConsumerCurrent(group_id, key.string(), _read(kind, value, _read_current))
        case _:
            return ConsumerRegex(group_id, key.string(), _read(kind, value, _read_regex))


def _read(kind: int, value: bytes | None, read: Callable[[Reader], Value]) -> Value | None:
    return None if value is None else read(_open(value, kind))


def _open(value: bytes, kind: int) -> Reader:
    reader = Reader(value)
    version = reader.int16()
    if version != 0:
        raise DecodeError(f"unsupported value version {version} of key type {kind}")
    return reader


def _read_epoch(reader: Reader) -> EpochValue:
    epoch, tags = reader.int32(), reader.tags()
    return EpochValue(epoch, Reader(tags[0]).int64() if 0 in tags else 0)


def _read_target_epoch(reader: Reader) -> TargetEpochValue:
    epoch, tags = reader.int32(), reader.tags()
    return TargetEpochValue(epoch, Reader(tags[0]).int64() if 0 in tags else None)


def _strings(reader: Reader) -> tuple[str, ...]:
    return tuple([reader.compact_string() for _ in range(reader.compact_array_length())])


def _read_member(reader: Reader) -> MemberValue:
    instance_id, rack_id = reader.compact_nullable_string(), reader.compact_nullable_string()
    client_id, client_host = reader.compact_string(), reader.compact_string()
    topics = _strings(reader)
    regex = reader.compact_nullable_string() or ""
    timeout_ms, assignor = reader.int32(), reader.compact_nullable_string()
    tags = reader.tags()
    classic = _read_classic(Reader(tags[0])) if 0 in tags else None
    return MemberValue(
        instance_id, rack_id, client_id, client_host, topics, regex, timeout_ms, assignor, classic
    )


def _read_classic(reader: Reader) -> ClassicPart | None:
    if not reader.int8():
        return None
    session_ms = reader.int32()
    protocols = []
    for _ in range(reader.compact_array_length(3)):
        protocols.append((reader.compact_string(), reader.compact_bytes()))
        reader.tags()
    reader.tags()
    return ClassicPart(session_ms, tuple(protocols))


def _read_target(reader: Reader) -> Partitions:
    found: dict[bytes, tuple[int, ...]] = {}
    for _ in range(reader.compact_array_length(_ID_BYTES + 2)):
        topic_id = reader.raw(_ID_BYTES)
        found[topic_id] = _read_numbers(reader)
        reader.tags()
    reader.tags()
    return found


def _read_numbers(reader: Reader) -> tuple[int, ...]:
    return tuple([reader.int32() for _ in range(reader.compact_array_length(4))])


def _read_current(reader: Reader) -> CurrentValue:
    epoch, previous, state = reader.int32(), reader.int32(), reader.int8()
    assigned, pending = _read_holding(reader, epoch), _read_holding(reader, epoch)
    reader.tags()
    return CurrentValue(
        epoch, previous, state if state in _STATES else ReconciliationState.UNKNOWN, assigned, pending
    )


def _read_holding(reader: Reader, epoch: int) -> Holding:
    """Partitions with their grant epochs; brokers before 4.3 did not write them: then it is the member's."""
    held: dict[bytes, dict[int, int]] = {}
    for _ in range(reader.compact_array_length(_ID_BYTES + 2)):
        topic_id = reader.raw(_ID_BYTES)
        partitions = _read_numbers(reader)
        tags = reader.tags()
        epochs = _read_numbers(Reader(tags[0])) if 0 in tags else ()
        if len(epochs) != len(partitions):
            epochs = (max(epoch, 0),) * len(partitions)
        held[topic_id] = dict(zip(partitions, epochs, strict=True))
    return held


def _read_regex(reader: Reader) -> RegexValue:
    topics = _strings(reader)
    version, timestamp_ms = reader.int64(), reader.int64()
    reader.tags()
    return RegexValue(topics, version, timestamp_ms)
