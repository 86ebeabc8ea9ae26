"""Records of the coordinators' topics as `klamm dump` shows them: decoded, not as bytes.

A record that cannot be decoded, or is of an unknown
kind, is shown as bytes with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

from klamm.groups import consumer_log
from klamm.groups.coordinator_log import (
    GROUP_KEY,
    OFFSET_KEYS,
    TRANSACTION_KEY,
    TYPES,
    LoggedMember,
    decode_group,
    decode_offset,
    decode_transaction,
    group_key,
    offset_key,
    transaction_key,
)
from klamm.protocol.errors import DecodeError
from klamm.protocol.primitives import Reader
from klamm.protocol.types import ZERO_ID, id_to_text

Fact: TypeAlias = dict[str, Any]
# A record's key and value as facts; DecodeError when they make no sense, None for an unknown kind.
Decode: TypeAlias = Callable[[bytes | None, bytes | None], Fact | None]


def decoder_for(topic: str) -> Decode | None:
    """How the records of a topic are decoded; None when they are a user's own."""
    return _DECODERS.get(topic)


def _key_type(key: bytes | None) -> int:
    if key is None:
        raise DecodeError("record without a key")
    return Reader(key).int16()


def _offsets_topic(key: bytes | None, value: bytes | None) -> Fact | None:
    kind = _key_type(key)
    assert key is not None
    if kind in OFFSET_KEYS:
        return _offset(key, value)
    if kind == GROUP_KEY:
        return _group(group_key(key), value)
    if kind in consumer_log.KEY_TYPES:
        return _of_consumer_group(kind, Reader(key, 2), value)
    return None


def _offset(key: bytes, value: bytes | None) -> Fact:
    group_id, topic, partition = offset_key(key)
    named: Fact = {"group": group_id, "topic": topic, "partition": partition}
    if value is None:
        return {"record": "offset_tombstone", **named}
    found = decode_offset(value)
    fact: Fact = {
        "record": "offset_commit",
        **named,
        "committed_offset": found.offset,
        "leader_epoch": found.leader_epoch,
        "metadata": found.metadata,
        "commit_timestamp_ms": found.commit_ms,
    }
    if found.expire_ms != -1:
        fact["expire_timestamp_ms"] = found.expire_ms
    if found.topic_id is not None and found.topic_id != ZERO_ID:
        fact["topic_id"] = id_to_text(found.topic_id)
    return fact


def _group(group_id: str, value: bytes | None) -> Fact:
    if value is None:
        return {"record": "group_tombstone", "group": group_id}
    group = decode_group(value)
    return {
        "record": "group_metadata",
        "group": group_id,
        "protocol_type": group.protocol_type,
        "generation": group.generation,
        "protocol": group.protocol,
        "leader": group.leader,
        "state_timestamp_ms": group.state_ms,
        "members": [_member(member) for member in group.members],
    }


def _member(member: LoggedMember) -> Fact:
    fact: Fact = {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "session_timeout_ms": member.session_timeout_ms,
    }
    if member.subscribed_topics is not None:
        fact["subscription"] = sorted(member.subscribed_topics)
    if member.assigned is not None and member.assignment:
        fact["assignment"] = [str(each) for each in member.assigned]
    else:
        fact["assignment_bytes"] = len(member.assignment)  # of another protocol than a consumer's
    return fact


def _of_consumer_group(kind: int, key: Reader, value: bytes | None) -> Fact:
    """A record of the consumer protocol; a tombstone has only the key."""
    fact: Fact = {"record": TYPES[kind], "group": key.string()}
    if kind in (consumer_log.MEMBER, consumer_log.TARGET, consumer_log.CURRENT):
        fact["member_id"] = key.string()
    elif kind == consumer_log.REGEX:
        fact["regex"] = key.string()
    read = _CONSUMER_VALUES.get(kind)
    return fact if read is None else fact | (consumer_log.read_value(kind, value, read) or {})


def _epoch(reader: Reader) -> Fact:
    found = consumer_log.read_epoch(reader)
    return {"epoch": found.epoch, "metadata_hash": found.metadata_hash}


def _target_epoch(reader: Reader) -> Fact:
    found = consumer_log.read_target_epoch(reader)
    return {"assignment_epoch": found.epoch, "assignment_timestamp_ms": found.timestamp_ms}


def _consumer_member(reader: Reader) -> Fact:
    member = consumer_log.read_member(reader)
    return {
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscription": list(member.topics),
        "regex": member.regex,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "assignor": member.assignor,
        "is_classic": member.classic is not None,
    }


def _target(reader: Reader) -> Fact:
    return {"partitions": _by_topic(consumer_log.read_target(reader))}


def _current(reader: Reader) -> Fact:
    current = consumer_log.read_current(reader)
    return {
        "epoch": current.epoch,
        "previous_epoch": current.previous_epoch,
        "state": current.state,
        "assigned": _by_topic(current.assigned),
        "pending": _by_topic(current.pending),
    }


def _by_topic(held: Mapping[bytes, Collection[int]]) -> dict[str, list[int]]:
    return {id_to_text(topic_id): list(partitions) for topic_id, partitions in held.items()}


def _regex(reader: Reader) -> Fact:
    return {"topics": list(consumer_log.read_regex(reader).topics)}


_CONSUMER_VALUES: Final[Mapping[int, Callable[[Reader], Fact]]] = {
    consumer_log.GROUP: _epoch,
    consumer_log.MEMBER: _consumer_member,
    consumer_log.TARGET_EPOCH: _target_epoch,
    consumer_log.TARGET: _target,
    consumer_log.CURRENT: _current,
    consumer_log.REGEX: _regex,
}


def _transactions_topic(key: bytes | None, value: bytes | None) -> Fact | None:
    if _key_type(key) != TRANSACTION_KEY:
        return None
    assert key is not None
    transactional_id = transaction_key(key)
    if value is None:
        return {"record": "transaction_tombstone", "transactional_id": transactional_id}
    found = decode_transaction(value)
    fact: Fact = {
        "record": "transaction",
        "transactional_id": transactional_id,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "state": found.state,
        "timeout_ms": found.timeout_ms,
        "partitions": [str(each) for each in sorted(found.partitions)],
        "update_timestamp_ms": found.update_ms,
        "start_timestamp_ms": found.start_ms,
    }
    tags = {
        "previous_producer_id": found.previous_producer_id,
        "next_producer_id": found.next_producer_id,
        "next_producer_epoch": found.next_producer_epoch,
    }
    fact |= {name: number for name, number in tags.items() if number != -1}
    if found.client_transaction_version:
        fact["client_transaction_version"] = found.client_transaction_version
    return fact


_DECODERS: Final[Mapping[str, Decode]] = {
    "__consumer_offsets": _offsets_topic,
    "__transaction_state": _transactions_topic,
}
