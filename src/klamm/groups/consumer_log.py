"""Values of the consumer protocol (KIP-848) in `__consumer_offsets`: the keys of version 3 to 8 and 16.

One reader for the coordinator, which lives on them, and for all who only look at its log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

from klamm.protocol.errors import DecodeError
from klamm.protocol.primitives import Reader

GROUP, TOPICS, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX = 3, 4, 5, 6, 7, 8, 16
KEY_TYPES: Final = frozenset({GROUP, TOPICS, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX})
Partitions = Mapping[bytes, tuple[int, ...]]  # topic id -> partitions, ascending
Holding = Mapping[bytes, Mapping[int, int]]  # topic id -> partition -> the epoch at which it was granted
NOTHING_HELD: Holding = {}
Value = TypeVar("Value")
ID_BYTES: Final = 16


class ReconciliationState(IntEnum):
    """How far a member is on its way to its target; the numbers are those of the log."""

    STABLE = 0
    UNREVOKED = 1  # it must give up what is pending
    UNRELEASED = 2  # others have not given up all that it gets
    UNKNOWN = 127  # written by a newer release


_STATES: Final = frozenset(ReconciliationState)


class ClassicPart(NamedTuple):
    """What a member that speaks the classic protocol has besides."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]  # by preference, with metadata


class MemberValue(NamedTuple):
    """A member as it describes itself."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()  # sorted
    regex: str = ""  # "": none
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicPart | None = None


class CurrentValue(NamedTuple):
    """What a member has been granted, and what it has to give up."""

    epoch: int
    previous_epoch: int
    state: int = ReconciliationState.STABLE
    assigned: Holding = NOTHING_HELD
    pending: Holding = NOTHING_HELD  # taken away, but its release is not acknowledged


class EpochValue(NamedTuple):
    """The version of members, subscriptions and topics."""

    epoch: int
    metadata_hash: int = 0


class TargetEpochValue(NamedTuple):
    """The epoch for which the target was computed."""

    epoch: int
    timestamp_ms: int | None = None


class RegexValue(NamedTuple):
    """The topics that a regular expression matched."""

    topics: tuple[str, ...]  # sorted
    version: int  # of the cluster's metadata
    timestamp_ms: int


# --- reading ---------------------------------------------------------------------------------------------


def read_value(kind: int, value: bytes | None, read: Callable[[Reader], Value]) -> Value | None:
    return None if value is None else read(_open(value, kind))


def _open(value: bytes, kind: int) -> Reader:
    reader = Reader(value)
    version = reader.int16()
    if version != 0:
        raise DecodeError(f"value of version {version} of key type {kind}")
    return reader


def read_epoch(reader: Reader) -> EpochValue:
    epoch, tags = reader.int32(), reader.tags()
    return EpochValue(epoch, Reader(tags[0]).int64() if 0 in tags else 0)


def read_target_epoch(reader: Reader) -> TargetEpochValue:
    epoch, tags = reader.int32(), reader.tags()
    return TargetEpochValue(epoch, Reader(tags[0]).int64() if 0 in tags else None)


def _strings(reader: Reader) -> tuple[str, ...]:
    return tuple([reader.compact_string() for _ in range(reader.compact_array_length())])


def read_member(reader: Reader) -> MemberValue:
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


def read_target(reader: Reader) -> Partitions:
    found: dict[bytes, tuple[int, ...]] = {}
    for _ in range(reader.compact_array_length(ID_BYTES + 2)):
        topic_id = reader.raw(ID_BYTES)
        found[topic_id] = _read_numbers(reader)
        reader.tags()
    reader.tags()
    return found


def _read_numbers(reader: Reader) -> tuple[int, ...]:
    return tuple([reader.int32() for _ in range(reader.compact_array_length(4))])


def read_current(reader: Reader) -> CurrentValue:
    epoch, previous, state = reader.int32(), reader.int32(), reader.int8()
    assigned, pending = _read_holding(reader, epoch), _read_holding(reader, epoch)
    reader.tags()
    return CurrentValue(
        epoch, previous, state if state in _STATES else ReconciliationState.UNKNOWN, assigned, pending
    )


def _read_holding(reader: Reader, epoch: int) -> Holding:
    """Partitions with their grant epochs; brokers before 4.3 did not write them: then it is the member's."""
    held: dict[bytes, dict[int, int]] = {}
    for _ in range(reader.compact_array_length(ID_BYTES + 2)):
        topic_id = reader.raw(ID_BYTES)
        partitions = _read_numbers(reader)
        tags = reader.tags()
        epochs = _read_numbers(Reader(tags[0])) if 0 in tags else ()
        if len(epochs) != len(partitions):
            epochs = (max(epoch, 0),) * len(partitions)
        held[topic_id] = dict(zip(partitions, epochs, strict=True))
    return held


def read_regex(reader: Reader) -> RegexValue:
    topics = _strings(reader)
    version, timestamp_ms = reader.int64(), reader.int64()
    reader.tags()
    return RegexValue(topics, version, timestamp_ms)
