"""Tables whose records are read one by one: which records belong to a table, and the rows they become."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from klamm.protocol.errors import DecodeError
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
from klamm.spark.decode.tables import CONSUMER_OFFSETS, TRANSACTION_STATE

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


def _tombstones(record: Found) -> Iterator[Row]:
    assert record.key is not None
    version = int.from_bytes(record.key[:2], signed=True)
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
        version = None if key is None or len(key) < 2 else int.from_bytes(key[:2], signed=True)
        yield {"key_version": version, "reason": reason, "key": key, "value": record.value}


def _reason(record: Found) -> str | None:
    """Why a record of `__consumer_offsets` is in no other table; None when it is in one."""
    key = record.key
    if key is None or len(key) < 2:
        return "no key version"
    version = int.from_bytes(key[:2], signed=True)
    try:
        if version in OFFSET_KEYS:
            offset_key(key)
            return "unreadable offset commit"  # the good ones were filtered out before
        if version == GROUP_KEY:
            group_key(key)
            if record.value is not None:
                decode_group(record.value)
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
    version = None if key is None or len(key) < 2 else int.from_bytes(key[:2], signed=True)
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


def _every(keys: Any, _is_null: Any) -> Any:
    return keys >= NO_VERSION


EXTRACTORS: Final[Mapping[tuple[str, str], tuple[Choice, Callable[[Found], Iterator[Row]]]]] = {
    (CONSUMER_OFFSETS, "group_registrations"): (lambda keys, _: keys == GROUP_KEY, _registrations),
    (CONSUMER_OFFSETS, "group_members"): (lambda keys, _: keys == GROUP_KEY, _members),
    (CONSUMER_OFFSETS, "tombstones"): (lambda keys, is_null: is_null & (keys != NO_VERSION), _tombstones),
    (CONSUMER_OFFSETS, "undecoded"): (lambda keys, _: (keys < 0) | (keys > 1), _undecoded),
    (TRANSACTION_STATE, "transactions"): (lambda keys, _: keys == TRANSACTION_KEY, _transactions),
    (TRANSACTION_STATE, "undecoded"): (_every, _undecoded_transactions),
}
