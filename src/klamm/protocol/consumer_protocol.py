"""The consumer protocol inside JoinGroup and SyncGroup: subscriptions and assignments as bytes.

Big-endian and never flexible: string = int16 length + UTF-8, bytes = int32 length, array = int32 count;
a length of -1 is null. The broker does not decode these bytes, except for the topics of a subscription.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from struct import Struct, pack, unpack_from
from struct import error as StructError  # noqa: N812 - it is one
from typing import Final

from klamm.protocol.errors import DecodeError
from klamm.protocol.types import TopicPartition

HIGHEST_VERSION: Final = 3
NO_GENERATION: Final = -1

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_MIN_STRING_BYTES: Final = 2
_MIN_TOPIC_BYTES: Final = 6  # an empty name and an empty array
_partition: Final = partial(tuple.__new__, TopicPartition)  # of a pair, without a call in Python


# Not frozen: one is made for each member in each rebalance, which takes three times as long then.
@dataclass(slots=True, unsafe_hash=True)
class Subscription:
    """What a member sends to the leader when it joins. Nobody changes it."""

    topics: tuple[str, ...] = ()
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()  # v1+
    generation: int | None = None  # v2+, of `owned`
    rack: str | None = None  # v3+


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the leader assigns to one member."""

    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None


@dataclass(slots=True, unsafe_hash=True)
class StickyMemory:
    """What a sticky member keeps between two rebalances. Nobody changes it."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int | None = None


NO_MEMORY: Final = StickyMemory()


# --- writing -----------------------------------------------------------------------------------------


def encode_subscription(subscription: Subscription, version: int = HIGHEST_VERSION) -> bytes:
    """A subscription as bytes, topics and owned partitions sorted."""
    topics = sorted(set(subscription.topics))
    parts = [_INT16.pack(version), _INT32.pack(len(topics))]
    parts += [_string(topic) for topic in topics]
    parts.append(_nullable_bytes(subscription.user_data))
    if version >= 1:
        parts.append(_grouped(subscription.owned))
    if version >= 2:
        generation = subscription.generation
        parts.append(_INT32.pack(NO_GENERATION if generation is None else generation))
    if version >= 3:
        parts.append(_string(subscription.rack) if subscription.rack else b"\xff\xff")
    return b"".join(parts)


def encode_assignment(assignment: Assignment, version: int = HIGHEST_VERSION) -> bytes:
    """An assignment as bytes; its layout is the same in every version."""
    given, user_data = _grouped(assignment.partitions), _nullable_bytes(assignment.user_data)
    return b"".join((_INT16.pack(version), given, user_data))


def encode_sticky_memory(memory: StickyMemory) -> bytes:
    """The user data of `sticky`: the last assignment and its generation."""
    generation = NO_GENERATION if memory.generation is None else memory.generation
    return _grouped(memory.partitions) + _INT32.pack(generation)


def encode_generation(generation: int | None) -> bytes:
    """The user data of `cooperative-sticky`: only the generation."""
    return _INT32.pack(NO_GENERATION if generation is None else generation)


def _string(text: str) -> bytes:
    raw = text.encode()
    if len(raw) > 0x7FFF:
        raise ValueError(f"a string of {len(raw)} bytes exceeds the consumer protocol's limit of 32767")
    return _INT16.pack(len(raw)) + raw


def _nullable_bytes(raw: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if raw is None else _INT32.pack(len(raw)) + raw


def _grouped(partitions: Iterable[TopicPartition]) -> bytes:
    ordered = sorted(set(partitions))
    if not ordered:
        return b"\x00\x00\x00\x00"
    groups: dict[str, list[int]] = {}
    for topic, number in ordered:
        numbers = groups.get(topic)
        if numbers is None:
            groups[topic] = [number]
        else:
            numbers.append(number)
    parts = [_INT32.pack(len(groups))]
    for topic, numbers in groups.items():
        parts.append(_string(topic))
        parts.append(pack(f">{len(numbers) + 1}i", len(numbers), *numbers))
    return b"".join(parts)


# --- reading -----------------------------------------------------------------------------------------
#
# A leader reads the subscription of each member in each rebalance, so there are few calls here. Each part
# returns what it has read and where the next one begins; an int32 has 4 bytes, an int16 has 2. Every length
# is checked against what is left: by `struct`, which reads nothing behind the end, or explicitly.


def decode_subscription(raw: bytes) -> Subscription:
    """Read a subscription of any version; one above ours is read as ours and its tail ignored."""
    owned: tuple[TopicPartition, ...] = ()
    generation, rack = NO_GENERATION, None
    try:
        version = _version(raw)
        topics, at = _topics_at(raw, _INT16.size)
        user_data, at = _nullable_bytes_at(raw, at)
        if version >= 1:
            owned, at = _partitions_at(raw, at)
        if version >= 2:
            (generation,) = _INT32.unpack_from(raw, at)
        if version >= 3:
            rack, at = _nullable_string_at(raw, at + _INT32.size)
    except StructError as error:
        raise DecodeError(f"subscription of {len(raw)} bytes: {error}") from None
    return Subscription(topics, user_data, owned, generation if generation >= 0 else None, rack or None)


def decode_assignment(raw: bytes) -> Assignment:
    """Read an assignment of any version."""
    try:
        _version(raw)
        partitions, at = _partitions_at(raw, _INT16.size)
        user_data, _ = _nullable_bytes_at(raw, at)
    except StructError as error:
        raise DecodeError(f"assignment of {len(raw)} bytes: {error}") from None
    return Assignment(partitions, user_data)


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics of a subscription, None when the bytes are not one.

    Reads only what every version begins with, so a client that is careless about the rest still counts.
    """
    try:
        _version(metadata)
        topics, at = _topics_at(metadata, _INT16.size)
        _nullable_bytes_at(metadata, at)
    except (DecodeError, StructError):
        return None
    return frozenset(topics)


def decode_sticky_memory(user_data: bytes | None) -> StickyMemory:
    """Read what a sticky member remembers; what cannot be read is no memory, never an error."""
    if not user_data:
        return NO_MEMORY
    try:
        partitions, at = _partitions_at(user_data, 0)
    except (DecodeError, StructError):
        return NO_MEMORY
    generation = decode_generation(user_data[at:])  # not in version 0
    return StickyMemory(partitions, generation)


def decode_generation(user_data: bytes | None) -> int | None:
    """Read the generation a cooperative-sticky member remembers; None when there is none to read."""
    if user_data is None or len(user_data) < _INT32.size:
        return None
    generation = int(_INT32.unpack_from(user_data)[0])
    return generation if generation >= 0 else None


def _version(raw: bytes) -> int:
    version: int
    (version,) = _INT16.unpack_from(raw)
    if version < 0:
        raise DecodeError(f"consumer protocol version {version} is negative")
    return version


def _count_at(raw: bytes, at: int, min_item_bytes: int) -> int:
    count: int
    (count,) = _INT32.unpack_from(raw, at)
    left_bytes = len(raw) - at - 4
    if count < 0 or count * min_item_bytes > left_bytes:
        raise DecodeError(f"{count} items cannot fit into the {left_bytes} bytes left")
    return count


def _nullable_string_at(raw: bytes, at: int) -> tuple[str | None, int]:
    (length,) = _INT16.unpack_from(raw, at)
    if length == -1:
        return None, at + _INT16.size
    return _string_at(raw, at)


def _string_at(raw: bytes, at: int) -> tuple[str, int]:
    (length,) = _INT16.unpack_from(raw, at)
    start = at + 2
    end = start + length
    if length < 0 or end > len(raw):
        raise DecodeError(f"a string at {at} has length {length}, {len(raw) - start} bytes are left")
    try:
        return str(raw[start:end], "utf-8"), end
    except UnicodeDecodeError as error:
        raise DecodeError(f"string at {start} is not UTF-8: {error}") from None


def _nullable_bytes_at(raw: bytes, at: int) -> tuple[bytes | None, int]:
    (length,) = _INT32.unpack_from(raw, at)
    start = at + 4
    if length == -1:
        return None, start
    end = start + length
    if length < 0 or end > len(raw):
        raise DecodeError(f"bytes at {at} have length {length}, {len(raw) - start} are left")
    return bytes(raw[start:end]), end


def _topics_at(raw: bytes, at: int) -> tuple[tuple[str, ...], int]:
    count = _count_at(raw, at, _MIN_STRING_BYTES)
    at += 4
    if count == 1:  # as most members have
        topic, at = _string_at(raw, at)
        return (topic,), at
    topics = []
    for _ in range(count):
        topic, at = _string_at(raw, at)
        topics.append(topic)
    return tuple(topics), at


def _partitions_at(raw: bytes, at: int) -> tuple[tuple[TopicPartition, ...], int]:
    topic_count = _count_at(raw, at, _MIN_TOPIC_BYTES)
    at += 4
    if not topic_count:
        return (), at
    partitions: list[TopicPartition] = []
    for _ in range(topic_count):
        topic, at = _string_at(raw, at)
        (count,) = _INT32.unpack_from(raw, at)
        at += 4
        end = at + count * 4
        if count < 0 or end > len(raw):
            raise DecodeError(f"{count} partitions cannot fit into the {len(raw) - at} bytes left")
        partitions += map(_partition, zip(repeat(topic), unpack_from(f">{count}i", raw, at)))
        at = end
    return tuple(partitions), at
