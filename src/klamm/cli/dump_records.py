"""Records of the coordinators' topics as `klamm dump` shows them: decoded, not as bytes.

A record that cannot be decoded, or is of an unknown
kind, is shown as bytes with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from klamm.coordinator.group import records as group_records
from klamm.coordinator.group.consumer.remembered import (
    ConsumerCurrent,
    ConsumerGroupEpoch,
    ConsumerMember,
    ConsumerRegex,
    ConsumerTarget,
    ConsumerTargetEpoch,
    ConsumerTopicMetadata,
    CurrentValue,
    EpochValue,
    MemberValue,
    TargetEpochValue,
)
from klamm.coordinator.group.remembered import (
    GroupForgotten,
    GroupRegistered,
    OffsetCommitted,
    OffsetForgotten,
    RegisteredMember,
)
from klamm.coordinator.transaction import records as transaction_records
from klamm.coordinator.transaction.remembered import TransactionForgotten, TransactionStored
from klamm.protocol.consumer_protocol import decode_assignment, subscribed_topics
from klamm.protocol.errors import DecodeError
from klamm.protocol.types import ZERO_ID, id_to_text

Fact: TypeAlias = dict[str, Any]
# A record's key and value as facts; DecodeError when they make no sense, None for an unknown kind.
Decode: TypeAlias = Callable[[bytes | None, bytes | None], Fact | None]


def decoder_for(topic: str) -> Decode | None:
    """How the records of a topic are decoded; None when they are a user's own."""
    return _DECODERS.get(topic)


def _offsets_topic(key: bytes | None, value: bytes | None) -> Fact | None:
    match group_records.decode_record(key, value):
        case OffsetCommitted(group_id, topic, partition, committed):
            fact: Fact = {
                "record": "offset_commit",
                "group": group_id,
                "topic": topic,
                "partition": partition,
                "committed_offset": committed.offset,
                "leader_epoch": committed.leader_epoch,
                "metadata": committed.metadata,
                "commit_timestamp_ms": committed.commit_timestamp_ms,
            }
            if committed.expire_timestamp_ms != -1:
                fact["expire_timestamp_ms"] = committed.expire_timestamp_ms
            if committed.topic_id != ZERO_ID:
                fact["topic_id"] = id_to_text(committed.topic_id)
            return fact
        case OffsetForgotten(group_id, topic, partition):
            return {
                "record": "offset_tombstone",
                "group": group_id,
                "topic": topic,
                "partition": partition,
            }
        case GroupRegistered() as group:
            return {
                "record": "group_metadata",
                "group": group.group_id,
                "protocol_type": group.protocol_type,
                "generation": group.generation,
                "protocol": group.protocol_name,
                "leader": group.leader_id,
                "state_timestamp_ms": group.state_timestamp_ms,
                "members": [_member(member) for member in group.members],
            }
        case GroupForgotten(group_id):
            return {"record": "group_tombstone", "group": group_id}
        case ConsumerGroupEpoch() | ConsumerTopicMetadata() | ConsumerTargetEpoch() as about_group:
            return _of_consumer_group(about_group)
        case ConsumerMember() | ConsumerTarget() | ConsumerCurrent() as about_member:
            return _of_consumer_member(about_member)
        case ConsumerRegex(group_id, regex, matched):
            fact = {"record": _CONSUMER_RECORDS[ConsumerRegex], "group": group_id, "regex": regex}
            return fact | ({} if matched is None else {"topics": list(matched.topics)})
        case _:
            return None


_CONSUMER_RECORDS: Final[Mapping[type, str]] = {
    ConsumerGroupEpoch: "consumer_group_metadata",
    ConsumerTopicMetadata: "consumer_group_partition_metadata",
    ConsumerMember: "consumer_group_member_metadata",
    ConsumerTargetEpoch: "consumer_group_target_assignment_metadata",
    ConsumerTarget: "consumer_group_target_assignment_member",
    ConsumerCurrent: "consumer_group_current_member_assignment",
    ConsumerRegex: "consumer_group_regular_expression",
}


def _of_consumer_group(record: ConsumerGroupEpoch | ConsumerTopicMetadata | ConsumerTargetEpoch) -> Fact:
    fact: Fact = {"record": _CONSUMER_RECORDS[type(record)], "group": record.group_id}
    match record:
        case ConsumerGroupEpoch(value=EpochValue() as value):
            return fact | {"epoch": value.epoch, "metadata_hash": value.metadata_hash}
        case ConsumerTargetEpoch(value=TargetEpochValue() as target):
            return fact | {"assignment_epoch": target.epoch, "assignment_timestamp_ms": target.timestamp_ms}
        case _:
            return fact


def _of_consumer_member(record: ConsumerMember | ConsumerTarget | ConsumerCurrent) -> Fact:
    fact: Fact = {
        "record": _CONSUMER_RECORDS[type(record)],
        "group": record.group_id,
        "member_id": record.member_id,
    }
    match record:
        case ConsumerMember(value=MemberValue() as member):
            return fact | {
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
        case ConsumerTarget(value=target) if target is not None:
            return fact | {"partitions": {id_to_text(key): list(held) for key, held in target.items()}}
        case ConsumerCurrent(value=CurrentValue() as current):
            return fact | {
                "epoch": current.epoch,
                "previous_epoch": current.previous_epoch,
                "state": current.state,
                "assigned": {id_to_text(key): list(held) for key, held in current.assigned.items()},
                "pending": {id_to_text(key): list(held) for key, held in current.pending.items()},
            }
        case _:
            return fact


def _member(member: RegisteredMember) -> Fact:
    fact: Fact = {
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "session_timeout_ms": member.session_timeout_ms,
    }
    topics = subscribed_topics(member.subscription)
    if topics is not None:
        fact["subscription"] = sorted(topics)
    try:
        fact["assignment"] = [str(each) for each in decode_assignment(member.assignment).partitions]
    except DecodeError:
        fact["assignment_bytes"] = len(member.assignment)  # of another protocol than a consumer's
    return fact


def _transactions_topic(key: bytes | None, value: bytes | None) -> Fact | None:
    match transaction_records.decode_record(key, value):
        case TransactionStored() as stored:
            fact: Fact = {
                "record": "transaction",
                "transactional_id": stored.transactional_id,
                "producer_id": stored.producer_id,
                "producer_epoch": stored.producer_epoch,
                "state": stored.state.label,
                "timeout_ms": stored.timeout_ms,
                "partitions": [str(each) for each in sorted(stored.partitions)],
                "update_timestamp_ms": stored.updated_timestamp_ms,
                "start_timestamp_ms": stored.started_timestamp_ms,
            }
            tags = {
                "previous_producer_id": stored.previous_producer_id,
                "next_producer_id": stored.next_producer_id,
                "next_producer_epoch": stored.next_producer_epoch,
            }
            fact |= {name: number for name, number in tags.items() if number != -1}
            if stored.client_version:
                fact["client_transaction_version"] = stored.client_version
            return fact
        case TransactionForgotten(transactional_id):
            return {"record": "transaction_tombstone", "transactional_id": transactional_id}
        case _:
            return None


_DECODERS: Final[Mapping[str, Decode]] = {
    "__consumer_offsets": _offsets_topic,
    "__transaction_state": _transactions_topic,
}
