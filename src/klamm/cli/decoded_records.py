"""Records of the coordinators' topics for `klamm consume`: decoded, or as Kafka's formatters print them."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from klamm.cli.dump_records import decoder_for
from klamm.client.consumer.markers import marker_of
from klamm.client.consumer.record_json import text_or_base64
from klamm.client.consumer.records import ConsumerRecord
from klamm.groups.coordinator_log import (
    GROUP_KEY,
    OFFSET_KEYS,
    TRANSACTION_KEY,
    LoggedMember,
    LoggedTransaction,
    Registration,
    decode_group,
    decode_offset,
    decode_transaction,
    group_key,
    offset_key,
    transaction_key,
)
from klamm.printable import printable_json
from klamm.protocol.errors import DecodeError
from klamm.protocol.types import ZERO_ID, id_to_text

INTERNAL: Final = ("__consumer_offsets", "__transaction_state")
Json = dict[str, Any]


def decoded(record: ConsumerRecord) -> bytes:
    """A line of JSON: where the record is, and what it says; or its bytes and why they cannot be decoded."""
    fact: Json = {
        "log": f"{record.topic}-{record.partition}",  # `topic` and `partition` are what a commit is about
        "log_offset": record.offset,
        "log_timestamp_ms": record.timestamp_ms,
    }
    try:
        marker = marker_of(record)
    except DecodeError as error:
        return _line({**fact, "record": "marker", "error": str(error)})
    if marker is not None:
        return _line({**fact, "record": "marker", **marker})
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
    key, value = record.key or b"", record.value
    key_type = int.from_bytes(key[:2], signed=True)
    if key_type in OFFSET_KEYS:
        group_id, topic, partition = offset_key(key)
        named = {"group": group_id, "topic": topic, "partition": partition}
        return _record(key_type, named, value, None if value is None else _offset(value))
    if key_type == GROUP_KEY:
        named = {"group": group_key(key)}
        return _record(key_type, named, value, None if value is None else _group(decode_group(value)))
    return None


def _offset(value: bytes) -> Json:
    found = decode_offset(value)
    data: Json = {"offset": found.offset}
    if found.value_version >= 3:
        data["leaderEpoch"] = found.leader_epoch
    data |= {"metadata": found.metadata, "commitTimestamp": found.commit_ms}
    if found.value_version == 1:
        data["expireTimestamp"] = found.expire_ms
    if found.value_version >= 4:
        data["topicId"] = id_to_text(found.topic_id or ZERO_ID)
    return data


def _group(group: Registration) -> Json:
    version = group.value_version
    data: Json = {
        "protocolType": group.protocol_type,
        "generation": group.generation,
        "protocol": group.protocol,
        "leader": group.leader,
    }
    if version >= 2:
        data["currentStateTimestamp"] = group.state_ms
    return {**data, "members": [_member(member, version) for member in group.members]}


def _member(member: LoggedMember, version: int) -> Json:
    data: Json = {"memberId": member.member_id}
    if version >= 3:
        data["groupInstanceId"] = member.instance_id
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
    key, value = record.key or b"", record.value
    if int.from_bytes(key[:2], signed=True) != TRANSACTION_KEY:
        return None
    named = {"transactionalId": transaction_key(key)}
    return _record(
        TRANSACTION_KEY, named, value, None if value is None else _transaction(decode_transaction(value))
    )


def _transaction(stored: LoggedTransaction) -> Json:
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
        "transactionStatus": stored.status,
        "transactionPartitions": None if stored.status == 0 and not partitions else partitions,
        "transactionLastUpdateTimestampMs": stored.update_ms,
        "transactionStartTimestampMs": stored.start_ms,
    }
    if stored.client_transaction_version:
        data["clientTransactionVersion"] = stored.client_transaction_version
    return data
