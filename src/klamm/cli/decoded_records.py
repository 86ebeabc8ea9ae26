"""Records of the coordinators' topics for `klamm consume`: decoded, or as Kafka's formatters print them."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from klamm.cli.dump_records import decoder_for
from klamm.client.consumer.record_json import text_or_base64
from klamm.client.consumer.records import ConsumerRecord
from klamm.coordinator.group import records as group_records
from klamm.coordinator.group.remembered import (
    GroupForgotten,
    GroupRegistered,
    OffsetCommitted,
    OffsetForgotten,
    RegisteredMember,
)
from klamm.coordinator.transaction import records as transaction_records
from klamm.coordinator.transaction.remembered import TransactionForgotten, TransactionStored
from klamm.coordinator.transaction.states import State
from klamm.printable import printable_json
from klamm.protocol.errors import DecodeError
from klamm.protocol.types import id_to_text

INTERNAL: Final = ("__consumer_offsets", "__transaction_state")
Json = dict[str, Any]


def decoded(record: ConsumerRecord) -> bytes:
    """A line of JSON: where the record is, and what it says; or its bytes and why they cannot be decoded."""
    fact: Json = {
        "log": f"{record.topic}-{record.partition}",  # `topic` and `partition` are what a commit is about
        "log_offset": record.offset,
        "log_timestamp_ms": record.timestamp_ms,
    }
    decode = decoder_for(record.topic)
    content = {**text_or_base64("key", record.key), **text_or_base64("value", record.value)}
    if decode is None:
        return _line({**fact, **content})
    try:
        found = decode(record.key, record.value)
    except DecodeError as error:
        return _line({**fact, **content, "error": str(error)})
    return _line({**fact, **(found or {"record": "unknown", **content})})


def as_kafka(record: ConsumerRecord) -> bytes:
    """What OffsetsMessageFormatter, GroupMetadataMessageFormatter or TransactionLogMessageFormatter prints.

    As a line of its own. Nothing for records that none of them prints.
    """
    try:
        if record.topic == INTERNAL[0]:
            found = _group_record(record)
        elif record.topic == INTERNAL[1]:
            found = _transaction_record(record)
        else:
            found = None
    except DecodeError:
        return b""
    return b"" if found is None else _line(found, separators=(",", ":"))


def _line(content: Json, separators: tuple[str, str] | None = None) -> bytes:
    return (printable_json(json.dumps(content, ensure_ascii=False, separators=separators)) + "\n").encode()


def _record(key_type: int, key: Json, value: bytes | None, data: Json | None) -> Json:
    """Key and value, each with its version, as the formatters have them."""
    told = None if value is None else {"version": int.from_bytes(value[:2], signed=True), "data": data}
    return {"key": {"type": key_type, "data": key}, "value": told}


def _group_record(record: ConsumerRecord) -> Json | None:
    key_type = int.from_bytes((record.key or b"")[:2], signed=True)
    match group_records.decode_record(record.key, record.value):
        case OffsetCommitted(group_id, topic, partition, committed):
            assert record.value is not None
            version = int.from_bytes(record.value[:2], signed=True)
            data: Json = {"offset": committed.offset}
            if version >= 3:
                data["leaderEpoch"] = committed.leader_epoch
            data |= {"metadata": committed.metadata, "commitTimestamp": committed.commit_timestamp_ms}
            if version == 1:
                data["expireTimestamp"] = committed.expire_timestamp_ms
            if version >= 4:
                data["topicId"] = id_to_text(committed.topic_id)
            key = {"group": group_id, "topic": topic, "partition": partition}
            return _record(key_type, key, record.value, data)
        case OffsetForgotten(group_id, topic, partition):
            key = {"group": group_id, "topic": topic, "partition": partition}
            return _record(key_type, key, None, None)
        case GroupRegistered() as group:
            return _record(key_type, {"group": group.group_id}, record.value, _group(group, record.value))
        case GroupForgotten(group_id):
            return _record(key_type, {"group": group_id}, None, None)
        case _:
            return None


def _group(group: GroupRegistered, value: bytes | None) -> Json:
    version = int.from_bytes((value or b"")[:2], signed=True)
    data: Json = {
        "protocolType": group.protocol_type,
        "generation": group.generation,
        "protocol": group.protocol_name,
        "leader": group.leader_id,
    }
    if version >= 2:
        data["currentStateTimestamp"] = group.state_timestamp_ms
    return {**data, "members": [_member(member, version) for member in group.members]}


def _member(member: RegisteredMember, version: int) -> Json:
    data: Json = {"memberId": member.member_id}
    if version >= 3:
        data["groupInstanceId"] = member.group_instance_id
    data |= {"clientId": member.client_id, "clientHost": member.client_host}
    if version >= 1:
        data["rebalanceTimeout"] = member.rebalance_timeout_ms
    return {
        **data,
        "sessionTimeout": member.session_timeout_ms,
        "subscription": base64.b64encode(member.subscription).decode(),
        "assignment": base64.b64encode(member.assignment).decode(),
    }


def _transaction_record(record: ConsumerRecord) -> Json | None:
    match transaction_records.decode_record(record.key, record.value):
        case TransactionStored() as stored:
            return _record(
                0, {"transactionalId": stored.transactional_id}, record.value, _transaction(stored)
            )
        case TransactionForgotten(transactional_id):
            return _record(0, {"transactionalId": transactional_id}, None, None)
        case _:
            return None


def _transaction(stored: TransactionStored) -> Json:
    """Fields that are their defaults are left out where the format leaves them out."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(stored.partitions):
        topics.setdefault(topic, []).append(number)
    partitions = [{"topic": topic, "partitionIds": numbers} for topic, numbers in topics.items()]
    data: Json = {"producerId": stored.producer_id}
    if stored.previous_producer_id != -1:
        data["previousProducerId"] = stored.previous_producer_id
    if stored.next_producer_id != -1:
        data["nextProducerId"] = stored.next_producer_id
    data["producerEpoch"] = stored.producer_epoch
    if stored.next_producer_epoch != -1:
        data["nextProducerEpoch"] = stored.next_producer_epoch
    data |= {
        "transactionTimeoutMs": stored.timeout_ms,
        "transactionStatus": int(stored.state),
        "transactionPartitions": None if stored.state is State.EMPTY and not partitions else partitions,
        "transactionLastUpdateTimestampMs": stored.updated_timestamp_ms,
        "transactionStartTimestampMs": stored.started_timestamp_ms,
    }
    if stored.client_version:
        data["clientTransactionVersion"] = stored.client_version
    return data
