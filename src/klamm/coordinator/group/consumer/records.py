"""The records of the consumer protocol in `__consumer_offsets`, as Kafka writes them.

Key: int16 type, string group, then a string for a member (types 5, 7 and 8) or a regular expression (16).
Value: int16 version 0, then flexible fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from klamm.coordinator.group.consumer.remembered import (
    ConsumerCurrent,
    ConsumerGroupEpoch,
    ConsumerMember,
    ConsumerRecord,
    ConsumerRegex,
    ConsumerTarget,
    ConsumerTargetEpoch,
    ConsumerTopicMetadata,
)
from klamm.groups.consumer_log import (
    CURRENT,
    GROUP,
    KEY_TYPES,
    MEMBER,
    REGEX,
    TARGET,
    TARGET_EPOCH,
    TOPICS,
    ClassicPart,
    CurrentValue,
    EpochValue,
    MemberValue,
    Partitions,
    RegexValue,
    TargetEpochValue,
    read_current,
    read_epoch,
    read_member,
    read_regex,
    read_target,
    read_target_epoch,
    read_value,
)
from klamm.protocol.primitives import Reader, Writer

__all__ = ["KEY_TYPES", "decode_consumer_record", "encode_consumer_record"]

_NO_TAGS: Final = b"\x00"


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
            return ConsumerGroupEpoch(group_id, read_value(kind, value, read_epoch))
        case 4:
            return ConsumerTopicMetadata(group_id, value is None)
        case 5:
            return ConsumerMember(group_id, key.string(), read_value(kind, value, read_member))
        case 6:
            return ConsumerTargetEpoch(group_id, read_value(kind, value, read_target_epoch))
        case 7:
            return ConsumerTarget(group_id, key.string(), read_value(kind, value, read_target))
        case 8:
            return ConsumerCurrent(group_id, key.string(), read_value(kind, value, read_current))
        case _:
            return ConsumerRegex(group_id, key.string(), read_value(kind, value, read_regex))
