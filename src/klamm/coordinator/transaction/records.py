"""`__transaction_state` as bytes, in Kafka's formats.

Key: version 0, transactional id. Value: version 0 under `transaction.version` 0, else version 1, which is
flexible and has the other producer ids as tags. A tag with its default value is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error, pack
from typing import Final, NamedTuple, TypeAlias

from klamm.coordinator.runtime.log import AppendRefusedError
from klamm.coordinator.transaction.remembered import (
    NO_EPOCH,
    NO_PARTITIONS,
    NO_PRODUCER_ID,
    TransactionForgotten,
    TransactionRecord,
    TransactionStored,
)
from klamm.coordinator.transaction.states import State
from klamm.protocol.codec.encoding import uvarint
from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.protocol.primitives import Reader, Writer
from klamm.protocol.types import TopicPartition
from klamm.records.core import encode_one
from klamm.records.record import Record, encode_batch

KEY_VERSION: Final = 0
HIGHEST_VALUE_VERSION: Final = 1

_HEAD: Final = Struct(">hqhib")  # version, producer id, epoch, timeout, state
_KEY_START: Final = Struct(">hh")  # version, length
_TIMES: Final = Struct(">qq")
_INT16: Final = Struct(">h")
_INT64: Final = Struct(">q")
_PREVIOUS_ID_TAG, _NEXT_ID_TAG, _CLIENT_VERSION_TAG, _NEXT_EPOCH_TAG = range(4)
# Both times; the number of tags, the tag, its size and the producer id; the tag, its size and the version.
_TIMES_AND_TAGS: Final = Struct(">qqBBBqBBh")
_EMPTY: Final = State.EMPTY  # an enum's member is looked up slowly
_SMALLEST_TOPIC_BYTES: Final = 3
_MANY_KNOWN: Final = 100
_SHORT: Final = 127  # what is shorter has a length of one byte


class UnknownTransactionKey(NamedTuple):
    """A record of an unknown kind."""

    version: int


# --- writing -----------------------------------------------------------------------------------------


# Partitions as the value of a record has them. Most transactions of a producer are in the same partitions.
KnownTopics: TypeAlias = dict[frozenset[TopicPartition], bytes]


def encode_records(
    records: Sequence[TransactionRecord],
    timestamp_ms: int,
    is_flexible: bool,
    known: KnownTopics | None = None,
) -> bytes:
    """Records as one batch. Raises AppendRefusedError when the format has no room for one of them.

    `known` has the partitions of earlier records, and those of these afterwards.
    """
    try:
        if len(records) == 1:  # as most batches
            key, value = encode_record(records[0], is_flexible, known)
            return encode_one(key, value, timestamp_ms)
        encoded = [
            Record(offset, timestamp_ms, *encode_record(record, is_flexible))
            for offset, record in enumerate(records)
        ]
    except (error, OverflowError, UnicodeEncodeError) as fault:
        raise AppendRefusedError(ErrorCode.message_too_large, f"encoding failed: {fault}") from fault
    return encode_batch(encoded)


def encode_record(
    record: TransactionRecord, is_flexible: bool, known: KnownTopics | None = None
) -> tuple[bytes, bytes | None]:
    """Key and value of one record; None is a tombstone."""
    if isinstance(record, TransactionStored):
        return encode_key(record.transactional_id), encode_value(record, is_flexible, known)
    return encode_key(record.transactional_id), None


def encode_key(transactional_id: str) -> bytes:
    raw = transactional_id.encode()
    return _KEY_START.pack(KEY_VERSION, len(raw)) + raw


def encode_value(stored: TransactionStored, is_flexible: bool, known: KnownTopics | None = None) -> bytes:
    """Version 1 if `is_flexible`, else version 0, which has no tags."""
    (_, producer_id, producer_epoch, timeout_ms, state, partitions, updated_timestamp_ms,
     started_timestamp_ms, previous_id, next_id, client_version, next_epoch) = stored  # fmt: skip
    head = _HEAD.pack(is_flexible, producer_id, producer_epoch, timeout_ms, state)
    if not is_flexible:
        topics = None if state is _EMPTY else _by_topic(partitions)
        return head + _encode_topics(topics) + _TIMES.pack(updated_timestamp_ms, started_timestamp_ms)
    if state is _EMPTY:
        compact = b"\x00"
    elif known is None:
        compact = _encode_compact_topics(_by_topic(partitions))
    else:
        found = known.get(partitions)
        if found is None:
            if len(known) >= _MANY_KNOWN:
                known.clear()
            found = known[partitions] = _encode_compact_topics(_by_topic(partitions))
        compact = found
    has_next = next_id != NO_PRODUCER_ID or next_epoch != NO_EPOCH
    if previous_id != NO_PRODUCER_ID and client_version and not has_next:
        # As most: two tags, the previous producer id and the client's version.
        return b"".join(
            (
                head,
                compact,
                _TIMES_AND_TAGS.pack(
                    updated_timestamp_ms,
                    started_timestamp_ms,
                    2,
                    _PREVIOUS_ID_TAG,
                    8,
                    previous_id,
                    _CLIENT_VERSION_TAG,
                    2,
                    client_version,
                ),
            )
        )
    times = _TIMES.pack(updated_timestamp_ms, started_timestamp_ms)
    return b"".join((head, compact, times, _encode_tags(previous_id, next_id, client_version, next_epoch)))


def _by_topic(partitions: frozenset[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        numbers = topics.get(topic)
        if numbers is None:
            topics[topic] = [partition]
        else:
            numbers.append(partition)
    return topics


def _encode_topics(topics: dict[str, list[int]] | None) -> bytes:
    if topics is None:
        return b"\xff\xff\xff\xff"
    writer = Writer().int32(len(topics))
    for topic, numbers in topics.items():
        raw = topic.encode()
        writer.int16(len(raw)).raw(raw).int32(len(numbers))
        writer.raw(pack(f">{len(numbers)}i", *numbers))
    return writer.getvalue()


def _encode_compact_topics(topics: dict[str, list[int]]) -> bytes:
    parts = [uvarint(len(topics) + 1)]
    for topic, numbers in topics.items():
        raw = topic.encode()
        if len(raw) < _SHORT > len(numbers):
            form = f">B{len(raw)}sB{len(numbers)}iB"
            parts.append(pack(form, len(raw) + 1, raw, len(numbers) + 1, *numbers, 0))
            continue
        parts += (
            uvarint(len(raw) + 1),
            raw,
            uvarint(len(numbers) + 1),
            pack(f">{len(numbers)}i", *numbers),
            b"\x00",
        )
    return b"".join(parts)


def _encode_tags(previous_id: int, next_id: int, client_version: int, next_epoch: int) -> bytes:
    tags: list[tuple[int, bytes]] = []
    if previous_id != NO_PRODUCER_ID:
        tags.append((_PREVIOUS_ID_TAG, _INT64.pack(previous_id)))
    if next_id != NO_PRODUCER_ID:
        tags.append((_NEXT_ID_TAG, _INT64.pack(next_id)))
    if client_version != 0:
        tags.append((_CLIENT_VERSION_TAG, _INT16.pack(client_version)))
    if next_epoch != NO_EPOCH:
        tags.append((_NEXT_EPOCH_TAG, _INT16.pack(next_epoch)))
    return bytes((len(tags),)) + b"".join(bytes((tag, len(raw))) + raw for tag, raw in tags)


# --- reading -----------------------------------------------------------------------------------------


def decode_record(key: bytes | None, value: bytes | None) -> TransactionRecord | UnknownTransactionKey:
    """One record. Raises DecodeError."""
    if key is None:
        raise DecodeError("record without a key")
    reader = Reader(key)
    version = reader.int16()
    if version != KEY_VERSION:
        return UnknownTransactionKey(version)
    transactional_id = reader.string()
    if value is None:
        return TransactionForgotten(transactional_id)
    return decode_value(transactional_id, value)


def decode_value(transactional_id: str, value: bytes) -> TransactionStored:
    """A value of either version. Raises DecodeError, also for a newer one: its meaning cannot be guessed."""
    reader = Reader(value)
    version = reader.int16()
    if not 0 <= version <= HIGHEST_VALUE_VERSION:
        raise DecodeError(
            f"value of {transactional_id!r} has version {version}; known are 0 to {HIGHEST_VALUE_VERSION}"
        )
    is_flexible = version >= 1
    producer_id, producer_epoch = reader.int64(), reader.int16()
    timeout_ms, status = reader.int32(), reader.int8()
    try:
        state = State(status)
    except ValueError as fault:
        raise DecodeError(f"value of {transactional_id!r} has unknown state {status}") from fault
    partitions = _decode_topics(reader, is_flexible=is_flexible)
    updated_timestamp_ms, started_timestamp_ms = reader.int64(), reader.int64()
    tags = reader.tags() if is_flexible else {}
    return TransactionStored(
        transactional_id,
        producer_id,
        producer_epoch,
        timeout_ms,
        state,
        partitions,
        updated_timestamp_ms,
        started_timestamp_ms,
        _tag(tags, _PREVIOUS_ID_TAG, _INT64, NO_PRODUCER_ID),
        _tag(tags, _NEXT_ID_TAG, _INT64, NO_PRODUCER_ID),
        _tag(tags, _CLIENT_VERSION_TAG, _INT16, 0),
        _tag(tags, _NEXT_EPOCH_TAG, _INT16, NO_EPOCH),
    )


def _decode_topics(reader: Reader, *, is_flexible: bool) -> frozenset[TopicPartition]:
    count = reader.uvarint() - 1 if is_flexible else reader.int32()
    if count == -1:
        return NO_PARTITIONS
    if count < 0 or count > reader.remaining // _SMALLEST_TOPIC_BYTES:
        raise DecodeError(f"{count} topics in {reader.remaining} bytes")
    partitions: set[TopicPartition] = set()
    for _ in range(count):
        topic = reader.compact_string() if is_flexible else reader.string()
        length = reader.compact_array_length(4) if is_flexible else reader.array_length(4)
        partitions.update([TopicPartition(topic, reader.int32()) for _ in range(length)])
        if is_flexible:
            reader.tags()
    return frozenset(partitions) if partitions else NO_PARTITIONS


def _tag(tags: dict[int, bytes], tag: int, kind: Struct, default: int) -> int:
    raw = tags.get(tag)
    if raw is None:
        return default
    if len(raw) != kind.size:
        raise DecodeError(f"tag {tag} has {len(raw)} bytes, expected {kind.size}")
    value: int = kind.unpack(raw)[0]
    return value
