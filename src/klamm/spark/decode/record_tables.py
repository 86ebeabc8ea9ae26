"""Tables whose records are read one by one: which records belong to a table, and the rows they become."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import numpy as np

from klamm.groups.consumer_log import CURRENT, GROUP, MEMBER, REGEX, TARGET, TARGET_EPOCH
from klamm.groups.coordinator_log import (
    GROUP_KEY,
    OFFSET_KEYS,
    TRANSACTION_KEY,
    TYPES,
    Registration,
    decode_group,
    decode_transaction,
    group_key,
    member_key,
    offset_key,
    transaction_key,
)
from klamm.protocol.errors import DecodeError
from klamm.protocol.types import TopicPartition
from klamm.spark.decode.consumer_groups import DECODED, consumer_row
from klamm.spark.decode.tables import CONSUMER_OFFSETS, OTHER_TABLES, OTHERS, TRANSACTION_STATE

NO_VERSION: Final = -(1 << 30)  # no 16-bit number: a key without a version
Row = dict[str, Any]
NamedRow = tuple[str, Row]
CONSUMER_TABLES: Final = {
    GROUP: "consumer_groups",
    TARGET_EPOCH: "consumer_groups",
    MEMBER: "consumer_members",
    TARGET: "consumer_assignments",
    CURRENT: "consumer_assignments",
    REGEX: "consumer_regexes",
}
# Key versions and null values of many records -> which of them a table is made of.
Choice = Callable[[Any, Any], Any]


class Found(NamedTuple):
    """A record that may belong to a table."""

    key: bytes | None
    value: bytes | None


def _instant(time_ms: int) -> int | None:
    return None if time_ms < 0 else time_ms * 1000


def offset_rows(record: Found) -> list[NamedRow]:
    """All rows of a record of `__consumer_offsets`, each with its table, but for `offset_commits`.

    Of the records of commits only tombstones and those that cannot be read make a row here.
    """
    key = record.key
    if key is None or len(key) < 2:
        return [_undecoded(None, "no key version", record)]
    version = _version(key)
    try:
        if version in OFFSET_KEYS:
            group_id, topic, partition = offset_key(key)
            found = [_undecoded(version, "unreadable offset commit", record)]
            if record.value is None:
                found.append(_tombstone(version, group_id, topic=topic, partition=partition))
            return found
        if version == GROUP_KEY:
            group_id = group_key(key)
            return _group_rows(group_id, None if record.value is None else decode_group(record.value))
        if version in DECODED:
            row = consumer_row(version, key, record.value)
            found = [(CONSUMER_TABLES[version], row)]
            if record.value is None:
                found.append(_tombstone(version, *member_key(key, version)))
            return found
    except DecodeError as error:
        return [_undecoded(version, f"unreadable {TYPES[version]}: {error}", record)]
    found = [_undecoded(version, TYPES.get(version, "unknown key version"), record)]
    if record.value is None and version in TYPES:
        with suppress(DecodeError):  # it is in table `undecoded`, as every record of this type
            found.append(_tombstone(version, *member_key(key, version)))
    return found


def _undecoded(version: int | None, reason: str, record: Found) -> NamedRow:
    return "undecoded", {
        "key_version": version,
        "reason": reason,
        "key": record.key,
        "value": record.value,
    }


def _tombstone(
    version: int,
    group_id: str,
    member_id: str | None = None,
    *,
    topic: str | None = None,
    partition: int | None = None,
) -> NamedRow:
    return "tombstones", {
        "record_type": TYPES[version],
        "key_version": version,
        "group_id": group_id,
        "topic": topic,
        "partition": partition,
        "member_id": member_id,
    }


def _group_rows(group_id: str, found: Registration | None) -> list[NamedRow]:
    row: Row = {
        "group_id": group_id,
        "protocol_type": found and found.protocol_type,
        "generation": found and found.generation,
        "protocol": found and found.protocol,
        "leader": found and found.leader,
        "state_ts": found and _instant(found.state_ms),
        "member_count": found and len(found.members),
        "value_version": found and found.value_version,
        "is_tombstone": found is None,
    }
    if found is None:
        return [("group_registrations", row), _tombstone(GROUP_KEY, group_id)]
    members = [
        (
            "group_members",
            {
                "group_id": group_id,
                "generation": found.generation,
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "rebalance_timeout_ms": member.rebalance_timeout_ms,
                "session_timeout_ms": member.session_timeout_ms,
                "is_leader": member.member_id == found.leader,
                "subscribed_topics": member.subscribed_topics,
                "owned": as_structs(member.owned),
                "assigned": as_structs(member.assigned),
            },
        )
        for member in found.members
    ]
    return [("group_registrations", row), *members]


def _rows_of(table: str) -> Callable[[Found], Iterator[Row]]:
    """The rows of a record for one table."""
    return lambda record: (row for name, row in offset_rows(record) if name == table)


def _others(record: Found) -> Iterator[Row]:
    key = record.key
    rows: Row = {"key_version": None if key is None or len(key) < 2 else _version(key)}
    rows |= dict.fromkeys(OTHER_TABLES)
    for name, row in offset_rows(record):
        if rows[name] is None:
            rows[name] = []
        rows[name].append(row)
    yield rows


def _version(key: bytes) -> int:
    return int.from_bytes(key[:2], signed=True)


def _transactions(record: Found) -> Iterator[Row]:
    assert record.key is not None
    try:
        transactional_id = transaction_key(record.key)
        found = None if record.value is None else decode_transaction(record.value)
    except DecodeError:
        return
    yield {
        "transactional_id": transactional_id,
        "producer_id": found and found.producer_id,
        "producer_epoch": found and found.producer_epoch,
        "timeout_ms": found and found.timeout_ms,
        "state": found and found.state,
        "partitions": None if found is None else as_structs(found.partitions),
        "update_ts": found and _instant(found.update_ms),
        "start_ts": found and _instant(found.start_ms),
        "previous_producer_id": found and found.previous_producer_id,
        "next_producer_id": found and found.next_producer_id,
        "client_transaction_version": found and found.client_transaction_version,
        "value_version": found and found.value_version,
        "is_tombstone": found is None,
    }


def _undecoded_transactions(record: Found) -> Iterator[Row]:
    key = record.key
    version = None if key is None or len(key) < 2 else _version(key)
    reason = "unknown key version"
    if version is None:
        reason = "no key version"
    elif version == TRANSACTION_KEY:
        assert key is not None
        try:
            transaction_key(key)
            if record.value is not None:
                decode_transaction(record.value)
            return
        except DecodeError as error:
            reason = f"unreadable transaction: {error}"
    yield {"key_version": version, "reason": reason, "key": key, "value": record.value}


def _of(*versions: int) -> Choice:
    return lambda keys, _: np.isin(keys, versions)


def no_commits(keys: Any, _is_null: Any) -> Any:
    return (keys < 0) | (keys > 1)


def _every(keys: Any, _is_null: Any) -> Any:
    return keys >= NO_VERSION


EXTRACTORS: Final[Mapping[tuple[str, str], tuple[Choice, Callable[[Found], Iterator[Row]]]]] = {
    (CONSUMER_OFFSETS, "group_registrations"): (_of(GROUP_KEY), _rows_of("group_registrations")),
    (CONSUMER_OFFSETS, "group_members"): (_of(GROUP_KEY), _rows_of("group_members")),
    (CONSUMER_OFFSETS, "consumer_groups"): (_of(GROUP, TARGET_EPOCH), _rows_of("consumer_groups")),
    (CONSUMER_OFFSETS, "consumer_members"): (_of(MEMBER), _rows_of("consumer_members")),
    (CONSUMER_OFFSETS, "consumer_assignments"): (_of(TARGET, CURRENT), _rows_of("consumer_assignments")),
    (CONSUMER_OFFSETS, "consumer_regexes"): (_of(REGEX), _rows_of("consumer_regexes")),
    (CONSUMER_OFFSETS, "tombstones"): (
        lambda keys, is_null: is_null & (keys != NO_VERSION),
        _rows_of("tombstones"),
    ),
    (CONSUMER_OFFSETS, "undecoded"): (no_commits, _rows_of("undecoded")),
    (CONSUMER_OFFSETS, OTHERS): (no_commits, _others),
    (TRANSACTION_STATE, "transactions"): (_of(TRANSACTION_KEY), _transactions),
    (TRANSACTION_STATE, "undecoded"): (_every, _undecoded_transactions),
}


def as_structs(partitions: tuple[TopicPartition, ...] | None) -> list[dict[str, Any]] | None:
    """Partitions as Arrow's list of structs takes them."""
    if partitions is None:
        return None
    return [{"topic": item.topic, "partition": item.partition} for item in partitions]
