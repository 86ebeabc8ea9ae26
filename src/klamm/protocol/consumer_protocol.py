"""The consumer protocol inside JoinGroup and SyncGroup: subscriptions and assignments as bytes.

Big-endian and never flexible: string = int16 length + UTF-8, bytes = int32 length, array = int32 count;
a length of -1 is null. The broker does not decode these bytes, except for the topics of a subscription.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from struct import Struct
from typing import Final

from klamm.protocol.errors import DecodeError
from klamm.protocol.types import TopicPartition

HIGHEST_VERSION: Final = 3
NO_GENERATION: Final = -1

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_MIN_STRING_BYTES: Final = 2
_MIN_TOPIC_BYTES: Final = 6  # an empty name and an empty array


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member sends to the leader when it joins."""

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


@dataclass(frozen=True, slots=True)
class StickyMemory:
    """What a sticky member keeps between two rebalances."""

    partitions: tuple[TopicPartition, ...] = ()
    generation: int | None = None


NO_MEMORY: Final = StickyMemory()


# --- writing -----------------------------------------------------------------------------------------


def encode_subscription(subscription: Subscription, version: int = HIGHEST_VERSION) -> bytes:
    """A subscription as bytes, topics and owned partitions sorted."""
    topics = sorted(set(subscription.topics))
    parts = [_INT16.pack(version), _INT32.pack(len(topics))]
    parts.extend(_string(topic) for topic in topics)
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
    head = _INT16.pack(version)
    return head + _grouped(assignment.partitions) + _nullable_bytes(assignment.user_data)


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
    groups = [
        (topic, [each.partition for each in group])
        for topic, group in groupby(sorted(set(partitions)), key=attrgetter("topic"))
    ]
    parts = [_INT32.pack(len(groups))]
    for topic, numbers in groups:
        parts.append(_string(topic))
        parts.append(Struct(f">{len(numbers) + 1}i").pack(len(numbers), *numbers))
    return b"".join(parts)


# --- reading -----------------------------------------------------------------------------------------


def decode_subscription(raw: bytes) -> Subscription:
    """Read a subscription of any version; one above ours is read as ours and its tail ignored."""
    cursor = _Cursor(raw)
    version = cursor.version()
    topics = cursor.strings()
    user_data = cursor.nullable_bytes()
    owned = cursor.grouped() if version >= 1 else ()
    generation = cursor.int32() if version >= 2 else NO_GENERATION
    rack = cursor.nullable_string() if version >= 3 else None
    return Subscription(
        topics=topics,
        user_data=user_data,
        owned=owned,
        generation=generation if generation >= 0 else None,
        rack=rack or None,
    )


def decode_assignment(raw: bytes) -> Assignment:
    """Read an assignment of any version."""
    cursor = _Cursor(raw)
    cursor.version()
    return Assignment(cursor.grouped(), cursor.nullable_bytes())


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics of a subscription, None when the bytes are not one.

    Reads only what every version begins with, so a client that is careless about the rest still counts.
    """
    cursor = _Cursor(metadata)
    try:
        cursor.version()
        topics = cursor.strings()
        cursor.nullable_bytes()
    except DecodeError:
        return None
    return frozenset(topics)


def decode_sticky_memory(user_data: bytes | None) -> StickyMemory:
    """Read what a sticky member remembers; what cannot be read is no memory, never an error."""
    if not user_data:
        return NO_MEMORY
    cursor = _Cursor(user_data)
    try:
        partitions = cursor.grouped()
    except DecodeError:
        return NO_MEMORY
    try:
        generation = cursor.int32()
    except DecodeError:  # version 0 ends here
        return StickyMemory(partitions)
    return StickyMemory(partitions, generation if generation >= 0 else None)


def decode_generation(user_data: bytes | None) -> int | None:
    """Read the generation a cooperative-sticky member remembers; None when there is none to read."""
    if user_data is None or len(user_data) < _INT32.size:
        return None
    generation = int(_INT32.unpack_from(user_data)[0])
    return generation if generation >= 0 else None


class _Cursor:
    """Reads forward through one buffer; every length is checked against what is left."""

    __slots__ = ("_left_bytes", "_position", "_raw")

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._position = 0
        self._left_bytes = len(raw)

    def _take(self, size_bytes: int) -> int:
        if size_bytes > self._left_bytes:
            raise DecodeError(f"{size_bytes} bytes expected at {self._position}, {self._left_bytes} left")
        position = self._position
        self._position += size_bytes
        self._left_bytes -= size_bytes
        return position

    def int16(self) -> int:
        return int(_INT16.unpack_from(self._raw, self._take(2))[0])

    def int32(self) -> int:
        return int(_INT32.unpack_from(self._raw, self._take(4))[0])

    def version(self) -> int:
        version = self.int16()
        if version < 0:
            raise DecodeError(f"consumer protocol version {version} is negative")
        return version

    def count(self, min_item_bytes: int) -> int:
        count = self.int32()
        if count < 0 or count * min_item_bytes > self._left_bytes:
            raise DecodeError(f"{count} items cannot fit into the {self._left_bytes} bytes left")
        return count

    def nullable_string(self) -> str | None:
        length = self.int16()
        if length < 0:
            if length == -1:
                return None
            raise DecodeError(f"string length {length} is negative")
        position = self._take(length)
        try:
            return str(self._raw[position : position + length], "utf-8")
        except UnicodeDecodeError as error:
            raise DecodeError(f"string at {position} is not UTF-8: {error}") from None

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise DecodeError("null where a topic name is required")
        return text

    def strings(self) -> tuple[str, ...]:
        return tuple([self.string() for _ in range(self.count(_MIN_STRING_BYTES))])

    def nullable_bytes(self) -> bytes | None:
        length = self.int32()
        if length < 0:
            if length == -1:
                return None
            raise DecodeError(f"bytes length {length} is negative")
        position = self._take(length)
        return bytes(self._raw[position : position + length])

    def grouped(self) -> tuple[TopicPartition, ...]:
        partitions: list[TopicPartition] = []
        for _ in range(self.count(_MIN_TOPIC_BYTES)):
            topic = self.string()
            count = self.count(_INT32.size)
            numbers = Struct(f">{count}i").unpack_from(self._raw, self._take(count * _INT32.size))
            partitions.extend([TopicPartition(topic, number) for number in numbers])
        return tuple(partitions)
