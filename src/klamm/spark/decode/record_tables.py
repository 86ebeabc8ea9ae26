"""Tables whose records are read one by one: which records belong to a table, and the rows they become."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from klamm.protocol.errors import DecodeError
from klamm.spark.decode.consumer_groups import (
    CURRENT,
    DECODED,
    GROUP,
    MEMBER,
    REGEX,
    TARGET,
    TARGET_EPOCH,
    consumer_row,
)
from klamm.spark.decode.records import (
    GROUP_KEY,
    OFFSET_KEYS,
    TRANSACTION_KEY,
    TYPES,
    as_structs,
    decode_group,
    decode_transaction,
    group_key,
    member_key,
    offset_key,
    transaction_key,
)
from klamm.spark.decode.tables import CONSUMER_OFFSETS, OTHER_TABLES, OTHERS, TRANSACTION_STATE

NO_VERSION: Final = -(1 << 30)  # no 16-bit number: a key without a version
Row = dict[str, Any]
# Key versions and null values of many records -> which of them a table is made of.
Choice = Callable[[Any, Any], Any]


class Found(NamedTuple):
    """A record that may belong to a table."""

    key: bytes | None
    value: bytes | None


def _instant(time_ms: int) -> int | None:
    return None if time_ms < 0 else time_ms * 1000


def _registrations(record: Found) -> Iterator[Row]:
    assert record.key is not None
    try:
        group_id = group_key(record.key)
        found = None if record.value is None else decode_group(record.value)
    except DecodeError:
        return  # in table `undecoded`
    yield {
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


def _members(record: Found) -> Iterator[Row]:
    assert record.key is not None
    if record.value is None:
        return
    try:
        group_id, found = group_key(record.key), decode_group(record.value)
    except DecodeError:
        return
    for member in found.members:
        yield {
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
        }


def _consumer_rows(record: Found) -> Iterator[Row]:
    assert record.key is not None
    try:
        yield consumer_row(_version(record.key), record.key, record.value)
    except DecodeError:
        return


def _others(record: Found) -> Iterator[Row]:
    key = record.key
    version = None if key is None or len(key) < 2 else _version(key)
    rows: Row = {"key_version": version}
    for table in OTHER_TABLES:
        chosen, extract = EXTRACTORS[CONSUMER_OFFSETS, table]
        is_meant = table == "undecoded" or chosen(
            np.array([NO_VERSION if version is None else version]), np.array([record.value is None])
        ).item(0)
        rows[table] = (list(extract(record)) if is_meant else None) or None
    yield rows


def _version(key: bytes) -> int:
    return int.from_bytes(key[:2], signed=True)


def _tombstones(record: Found) -> Iterator[Row]:
    assert record.key is not None
    version = _version(record.key)
    row: Row = {"record_type": TYPES.get(version), "key_version": version, "topic": None, "partition": None}
    try:
        if version in OFFSET_KEYS:
            group_id, topic, partition = offset_key(record.key)
            yield row | {"group_id": group_id, "topic": topic, "partition": partition, "member_id": None}
        elif version in TYPES:
            group_id, member_id = member_key(record.key, version)
            yield row | {"group_id": group_id, "member_id": member_id}
    except DecodeError:
        return


def _undecoded(record: Found) -> Iterator[Row]:
    reason = _reason(record)
    if reason is not None:
        key = record.key
        version = None if key is None or len(key) < 2 else _version(key)
        yield {"key_version": version, "reason": reason, "key": key, "value": record.value}


def _reason(record: Found) -> str | None:
    """Why a record of `__consumer_offsets` is in no other table; None when it is in one."""
    key = record.key
    if key is None or len(key) < 2:
        return "no key version"
    version = _version(key)
    try:
        if version in OFFSET_KEYS:
            offset_key(key)
            return "unreadable offset commit"  # the good ones were filtered out before
        if version == GROUP_KEY:
            group_key(key)
            if record.value is not None:
                decode_group(record.value)
            return None
        if version in DECODED:
            consumer_row(version, key, record.value)
            return None
    except DecodeError as error:
        return f"unreadable {TYPES[version]}: {error}"
    return TYPES.get(version, "unknown key version")


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


def _no_commits(keys: Any, _is_null: Any) -> Any:
    return (keys < 0) | (keys > 1)


def _every(keys: Any, _is_null: Any) -> Any:
    return keys >= NO_VERSION


EXTRACTORS: Final[Mapping[tuple[str, str], tuple[Choice, Callable[[Found], Iterator[Row]]]]] = {
    (CONSUMER_OFFSETS, "group_registrations"): (_of(GROUP_KEY), _registrations),
    (CONSUMER_OFFSETS, "group_members"): (_of(GROUP_KEY), _members),
    (CONSUMER_OFFSETS, "consumer_groups"): (_of(GROUP, TARGET_EPOCH), _consumer_rows),
    (CONSUMER_OFFSETS, "consumer_members"): (_of(MEMBER), _consumer_rows),
    (CONSUMER_OFFSETS, "consumer_assignments"): (_of(TARGET, CURRENT), _consumer_rows),
    (CONSUMER_OFFSETS, "consumer_regexes"): (_of(REGEX), _consumer_rows),
    (CONSUMER_OFFSETS, "tombstones"): (lambda keys, is_null: is_null & (keys != NO_VERSION), _tombstones),
    (CONSUMER_OFFSETS, "undecoded"): (_no_commits, _undecoded),
    (CONSUMER_OFFSETS, OTHERS): (_no_commits, _others),
    (TRANSACTION_STATE, "transactions"): (_of(TRANSACTION_KEY), _transactions),
    (TRANSACTION_STATE, "undecoded"): (_every, _undecoded_transactions),
}
