"""Records of groups with the consumer protocol (KIP-848): keys of version 3, 5, 6, 7, 8 and 16."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from klamm.protocol.errors import DecodeError
from klamm.protocol.primitives import Reader
from klamm.protocol.types import id_to_text

GROUP: Final = 3
MEMBER: Final = 5
TARGET_EPOCH: Final = 6
TARGET: Final = 7
CURRENT: Final = 8
REGEX: Final = 16
KINDS: Final = {GROUP: "group", TARGET_EPOCH: "target", TARGET: "target", CURRENT: "current"}
MEMBER_STATES: Final = {0: "STABLE", 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS"}
_TOPIC_BYTES: Final = 18  # an id, an empty array and no tags
Row = dict[str, Any]
_NO_GROUP: Final[Row] = {"epoch": None}
_NO_MEMBER: Final[Row] = dict.fromkeys(
    (
        "instance_id",
        "rack_id",
        "client_id",
        "client_host",
        "subscribed_topics",
        "subscribed_regex",
        "rebalance_timeout_ms",
        "server_assignor",
        "is_classic",
    )
)
_NO_ASSIGNMENT: Final[Row] = dict.fromkeys(
    ("member_epoch", "previous_epoch", "state", "assigned", "pending_revocation")
)
_NO_REGEX: Final[Row] = dict.fromkeys(("topics", "metadata_version", "resolved_ts"))


def consumer_row(version: int, key: bytes, value: bytes | None) -> Row:
    """The columns of one record; a tombstone has nulls. Raises DecodeError."""
    named = Reader(key, 2)
    row: Row = {"group_id": named.string(), "is_tombstone": value is None}
    if version in KINDS:
        row["kind"] = KINDS[version]
    if version in (MEMBER, TARGET, CURRENT):
        row["member_id"] = named.string()
    elif version == REGEX:
        row["regex"] = named.string()
    missing, decode = _VALUES[version]
    if value is None:
        return row | missing
    reader = Reader(value)
    value_version = reader.int16()
    if value_version != 0:
        raise DecodeError(f"value of version {value_version}")
    return row | missing | decode(reader)


def _epoch(reader: Reader) -> Row:
    row: Row = {"epoch": reader.int32()}
    reader.tags()
    return row


def _member(reader: Reader) -> Row:
    row: Row = {
        "instance_id": reader.compact_nullable_string(),
        "rack_id": reader.compact_nullable_string(),
        "client_id": reader.compact_string(),
        "client_host": reader.compact_string(),
        "subscribed_topics": _strings(reader),
        "subscribed_regex": reader.compact_nullable_string() or None,
        "rebalance_timeout_ms": reader.int32(),
        "server_assignor": reader.compact_nullable_string(),
    }
    # The only tag has the session timeout and the protocols of a member that speaks the classic protocol.
    row["is_classic"] = 0 in reader.tags()
    return row


def _target(reader: Reader) -> Row:
    row: Row = {"assigned": _assigned(reader)}
    reader.tags()
    return row


def _current(reader: Reader) -> Row:
    member_epoch, previous_epoch, state = reader.int32(), reader.int32(), reader.int8()
    row: Row = {
        "member_epoch": member_epoch,
        "previous_epoch": previous_epoch,
        "state": MEMBER_STATES.get(state, f"UNKNOWN({state})"),
        "assigned": _assigned(reader),
        "pending_revocation": _assigned(reader),
    }
    reader.tags()
    return row


def _regex(reader: Reader) -> Row:
    topics, version, time_ms = _strings(reader), reader.int64(), reader.int64()
    reader.tags()
    return {"topics": topics, "metadata_version": version, "resolved_ts": time_ms * 1000}


def _strings(reader: Reader) -> list[str]:
    return [reader.compact_string() for _ in range(reader.compact_array_length())]


def _assigned(reader: Reader) -> list[Row]:
    found: list[Row] = []
    for _ in range(reader.compact_array_length(_TOPIC_BYTES)):
        topic_id = id_to_text(reader.raw(16))
        count = reader.compact_array_length(4)
        found += [{"topic_id": topic_id, "partition": reader.int32()} for _ in range(count)]
        reader.tags()
    return found


_VALUES: Final[Mapping[int, tuple[Row, Callable[[Reader], Row]]]] = {
    GROUP: (_NO_GROUP, _epoch),
    MEMBER: (_NO_MEMBER, _member),
    TARGET_EPOCH: (_NO_GROUP, _epoch),
    TARGET: (_NO_ASSIGNMENT, _target),
    CURRENT: (_NO_ASSIGNMENT, _current),
    REGEX: (_NO_REGEX, _regex),
}
DECODED: Final = frozenset(_VALUES)
