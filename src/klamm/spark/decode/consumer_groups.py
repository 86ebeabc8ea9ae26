"""Records of groups with the consumer protocol (KIP-848): keys of version 3, 5, 6, 7, 8 and 16."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from klamm.groups.consumer_log import (
    CURRENT,
    GROUP,
    MEMBER,
    REGEX,
    TARGET,
    TARGET_EPOCH,
    Holding,
    Partitions,
    ReconciliationState,
    read_current,
    read_epoch,
    read_member,
    read_regex,
    read_target,
    read_target_epoch,
    read_value,
)
from klamm.protocol.primitives import Reader
from klamm.protocol.types import id_to_text

KINDS: Final = {GROUP: "group", TARGET_EPOCH: "target", TARGET: "target", CURRENT: "current"}
MEMBER_STATES: Final[Mapping[int, str]] = {
    ReconciliationState.STABLE: "STABLE",
    ReconciliationState.UNREVOKED: "UNREVOKED_PARTITIONS",
    ReconciliationState.UNRELEASED: "UNRELEASED_PARTITIONS",
}
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
    missing, found = _VALUES[version]
    return row | missing | (read_value(version, value, found) or {})


def _epoch(reader: Reader) -> Row:
    return {"epoch": read_epoch(reader).epoch}


def _target_epoch(reader: Reader) -> Row:
    return {"epoch": read_target_epoch(reader).epoch}


def _member(reader: Reader) -> Row:
    member = read_member(reader)
    return {
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topics": list(member.topics),
        "subscribed_regex": member.regex or None,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "server_assignor": member.assignor,
        "is_classic": member.classic is not None,
    }


def _target(reader: Reader) -> Row:
    return {"assigned": _assigned(read_target(reader))}


def _current(reader: Reader) -> Row:
    current = read_current(reader)
    return {
        "member_epoch": current.epoch,
        "previous_epoch": current.previous_epoch,
        "state": MEMBER_STATES.get(current.state, f"UNKNOWN({int(current.state)})"),
        "assigned": _assigned(current.assigned),
        "pending_revocation": _assigned(current.pending),
    }


def _regex(reader: Reader) -> Row:
    found = read_regex(reader)
    return {
        "topics": list(found.topics),
        "metadata_version": found.version,
        "resolved_ts": found.timestamp_ms * 1000,
    }


def _assigned(held: Holding | Partitions) -> list[Row]:
    return [
        {"topic_id": id_to_text(topic_id), "partition": number}
        for topic_id, partitions in held.items()
        for number in partitions
    ]


_VALUES: Final[Mapping[int, tuple[Row, Callable[[Reader], Row]]]] = {
    GROUP: (_NO_GROUP, _epoch),
    MEMBER: (_NO_MEMBER, _member),
    TARGET_EPOCH: (_NO_GROUP, _target_epoch),
    TARGET: (_NO_ASSIGNMENT, _target),
    CURRENT: (_NO_ASSIGNMENT, _current),
    REGEX: (_NO_REGEX, _regex),
}
DECODED: Final = frozenset(_VALUES)
