"""Keys and values of the coordinators' logs, read record by record; offset commits have a faster way.

The version of a key in `__consumer_offsets` is the type of the record. All versions of the values that Apache
Kafka has written are read; other types are counted and left as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from klamm.protocol.consumer_protocol import decode_assignment, decode_subscription
from klamm.protocol.errors import DecodeError
from klamm.protocol.primitives import Reader
from klamm.protocol.types import TopicPartition

OFFSET_KEYS: Final = (0, 1)
GROUP_KEY: Final = 2
TRANSACTION_KEY: Final = 0
TYPES: Final[Mapping[int, str]] = {
    0: "offset_commit",
    1: "offset_commit",
    2: "group_metadata",
    3: "consumer_group_metadata",
    4: "consumer_group_partition_metadata",
    5: "consumer_group_member_metadata",
    6: "consumer_group_target_assignment_metadata",
    7: "consumer_group_target_assignment_member",
    8: "consumer_group_current_member_assignment",
    9: "share_group_partition_metadata",
    10: "share_group_member_metadata",
    11: "share_group_metadata",
    12: "share_group_target_assignment_metadata",
    13: "share_group_target_assignment_member",
    14: "share_group_current_member_assignment",
    15: "share_group_state_partition_metadata",
    16: "consumer_group_regular_expression",
    17: "streams_group_metadata",
    18: "streams_group_partition_metadata",
    19: "streams_group_member_metadata",
    20: "streams_group_target_assignment_metadata",
    21: "streams_group_target_assignment_member",
    22: "streams_group_current_member_assignment",
    23: "streams_group_topology",
}
_WITH_MEMBER: Final = frozenset({5, 7, 8, 10, 13, 14, 19, 21, 22})
STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
_HIGHEST_GROUP_VERSION: Final = 4
_HIGHEST_TRANSACTION_VERSION: Final = 1
_SMALLEST_MEMBER_BYTES: Final = 10


class LoggedOffset(NamedTuple):
    """A commit as it was written; -1 and None: its version has none."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int
    topic_id: bytes | None
    value_version: int


class LoggedMember(NamedTuple):
    """One member of a registered generation; topics and partitions are None when they cannot be read."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscribed_topics: tuple[str, ...] | None
    owned: tuple[TopicPartition, ...] | None
    assigned: tuple[TopicPartition, ...] | None
    subscription: bytes  # as it was written
    assignment: bytes


@dataclass(frozen=True, slots=True)
class Registration:
    """A group as it was written: a generation with its members, or an empty group."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_ms: int  # -1: the version has none
    value_version: int
    members: tuple[LoggedMember, ...]


@dataclass(frozen=True, slots=True)
class LoggedTransaction:
    """A transactional id as it was written."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: str
    partitions: tuple[TopicPartition, ...]
    update_ms: int
    start_ms: int
    previous_producer_id: int
    next_producer_id: int
    client_transaction_version: int
    value_version: int
    next_producer_epoch: int

    @property
    def status(self) -> int:
        """The state as a number."""
        return STATES.index(self.state)


def group_key(key: bytes) -> str:
    """The group of a key of version 2."""
    reader = Reader(key, 2)
    return reader.string()


def offset_key(key: bytes) -> tuple[str, str, int]:
    """Group, topic and partition of a key of version 0 or 1."""
    reader = Reader(key, 2)
    return reader.string(), reader.string(), reader.int32()


def member_key(key: bytes, version: int) -> tuple[str, str | None]:
    """The group, and the member where there is one, of a key of any other known version."""
    reader = Reader(key, 2)
    group_id = reader.string()
    return group_id, reader.string() if version in _WITH_MEMBER else None


def transaction_key(key: bytes) -> str:
    return Reader(key, 2).string()


def decode_offset(value: bytes) -> LoggedOffset:
    """A commit in any version. Raises DecodeError."""
    reader = Reader(value)
    version = reader.int16()
    if not 0 <= version <= _HIGHEST_GROUP_VERSION:
        raise DecodeError(f"an offset of version {version}")
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.compact_string() if version >= 4 else reader.string()
    commit_ms = reader.int64()
    expire_ms = reader.int64() if version == 1 else -1
    topic_id = reader.tags().get(0) if version >= 4 else None
    return LoggedOffset(offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id, version)


def decode_group(value: bytes) -> Registration:
    """A group in any version. Raises DecodeError."""
    reader = Reader(value)
    version = reader.int16()
    if not 0 <= version <= _HIGHEST_GROUP_VERSION:
        raise DecodeError(f"group metadata of version {version}")
    is_flexible = version >= 4
    nullable = reader.compact_nullable_string if is_flexible else reader.nullable_string
    protocol_type = reader.compact_string() if is_flexible else reader.string()
    generation = reader.int32()
    protocol, leader = nullable(), nullable()
    state_ms = reader.int64() if version >= 2 else -1
    count = (reader.compact_array_length if is_flexible else reader.array_length)(_SMALLEST_MEMBER_BYTES)
    members = tuple([_member(reader, version, protocol_type) for _ in range(count)])
    return Registration(protocol_type, generation, protocol, leader, state_ms, version, members)


def _member(reader: Reader, version: int, protocol_type: str) -> LoggedMember:
    is_flexible = version >= 4
    string = reader.compact_string if is_flexible else reader.string
    raw = reader.compact_bytes if is_flexible else reader.byte_string
    member_id = string()
    instance_id = None
    if version >= 3:
        instance_id = reader.compact_nullable_string() if is_flexible else reader.nullable_string()
    client_id, client_host = string(), string()
    rebalance_ms = reader.int32() if version >= 1 else None
    session_ms = reader.int32()
    subscription, assignment = raw(), raw()
    if is_flexible:
        reader.tags()
    topics = owned = assigned = None
    if protocol_type == "consumer":
        topics, owned = _subscribed(subscription)
        assigned = _assigned(assignment)
    return LoggedMember(
        member_id,
        instance_id,
        client_id,
        client_host,
        session_ms if rebalance_ms is None else rebalance_ms,
        session_ms,
        topics,
        owned,
        assigned,
        subscription,
        assignment,
    )


def _subscribed(raw: bytes) -> tuple[tuple[str, ...] | None, tuple[TopicPartition, ...] | None]:
    try:
        found = decode_subscription(raw)
    except DecodeError:
        return None, None
    return tuple(found.topics), tuple(found.owned)


def _assigned(raw: bytes) -> tuple[TopicPartition, ...] | None:
    if not raw:
        return ()  # a member that got nothing
    try:
        return tuple(decode_assignment(raw).partitions)
    except DecodeError:
        return None


def decode_transaction(value: bytes) -> LoggedTransaction:
    """A transactional id in any version. Raises DecodeError."""
    reader = Reader(value)
    version = reader.int16()
    if not 0 <= version <= _HIGHEST_TRANSACTION_VERSION:
        raise DecodeError(f"a transaction of version {version}")
    is_flexible = version >= 1
    producer_id, epoch, timeout_ms = reader.int64(), reader.int16(), reader.int32()
    state = reader.int8()
    if not 0 <= state < len(STATES):
        raise DecodeError(f"transaction state {state}")
    partitions = _partitions(reader, is_flexible=is_flexible)
    update_ms, start_ms = reader.int64(), reader.int64()
    tags = reader.tags() if is_flexible else {}
    return LoggedTransaction(
        producer_id,
        epoch,
        timeout_ms,
        STATES[state],
        partitions,
        update_ms,
        start_ms,
        _tagged(tags, 0, -1),
        _tagged(tags, 1, -1),
        _tagged(tags, 2, 0),
        version,
        _tagged(tags, 3, -1),
    )


def _tagged(tags: Mapping[int, bytes], number: int, default: int) -> int:
    raw = tags.get(number)
    return default if raw is None else int.from_bytes(raw, signed=True)


def _partitions(reader: Reader, *, is_flexible: bool) -> tuple[TopicPartition, ...]:
    """A nullable array of topics; null and empty mean the same here."""
    found: list[TopicPartition] = []
    for _ in range(_nullable_count(reader, is_flexible, 3)):
        topic = reader.compact_string() if is_flexible else reader.string()
        for _ in range(_nullable_count(reader, is_flexible, 4)):
            found.append(TopicPartition(topic, reader.int32()))
        if is_flexible:
            reader.tags()
    return tuple(found)


def _nullable_count(reader: Reader, is_flexible: bool, smallest_bytes: int) -> int:
    count = reader.uvarint() - 1 if is_flexible else reader.int32()
    if count > reader.remaining // smallest_bytes or count < -1:
        raise DecodeError(f"{count} elements in {reader.remaining} bytes")
    return max(count, 0)
