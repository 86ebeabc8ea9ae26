"""Decisions of the per-task protocol: a record in a topic, and its offset in the sink's group.

The record names the transactions of all tasks, which may be more than fits into the metadata of an offset.
Both are written in one transaction of the driver, so the offset is there exactly when the batch was decided.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from klamm.client.admin.model import NewTopic
from klamm.client.committed import Committed
from klamm.client.producer.encoded import EncodedProducer
from klamm.client.ranges import RangeReader, RangeSettings
from klamm.clock import Clock
from klamm.errors import BrokerError, KlammError
from klamm.protocol.errors import DecodeError, ErrorCode
from klamm.protocol.types import TopicPartition
from klamm.records.arrow import EncodedRegion
from klamm.records.batch import iter_headers
from klamm.records.core import encode_region
from klamm.records.record import Record, decode_records
from klamm.spark.options.options import SinkOptions
from klamm.spark.setup.connections import admin, fetcher
from klamm.spark.write.decisions import BatchKey, encode_decision, encode_slot_decision, sink_group
from klamm.spark.write.slots import Slot

TOPIC: Final = "__klamm_sink"
CARRIER: Final = TopicPartition(TOPIC, 0)
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class SlotDecision:
    """A batch that was decided, and the transactions that make it up."""

    key: BatchKey
    slots: tuple[Slot, ...]


def create_topic(options: SinkOptions) -> None:
    """Create the topic of decisions if there is none."""
    compacted = NewTopic(TOPIC, 1, -1, configs={"cleanup.policy": "compact"})
    created = admin(options.client).create_topics([compacted], raise_errors=False)
    for error in created.errors.values():
        if not isinstance(error, BrokerError) or error.error_code != ErrorCode.topic_already_exists:
            raise KlammError(
                f"creating topic {TOPIC}, which txn.mode=per-task needs, failed: {error}; create it with "
                "cleanup.policy=compact and one partition"
            ) from error
    admin(options.client).wait_for_topics([TOPIC])


def append(producer: EncodedProducer, options: SinkOptions, decision: SlotDecision, clock: Clock) -> None:
    """Write a decision in the producer's transaction."""
    assert options.transactional_id is not None
    value = {
        "version": _VERSION,
        "query": decision.key.query_id,
        "batch": decision.key.batch_id,
        "slots": [asdict(slot) for slot in decision.slots],
    }
    now_ms = clock.timestamp_ms()
    record = Record(
        0, now_ms, options.transactional_id.encode(), json.dumps(value, separators=(",", ":")).encode(), ()
    )
    region = EncodedRegion(CARRIER.partition, encode_region([record], 0, now_ms), 1, now_ms, now_ms)
    batches = producer.send_regions(TOPIC, [region])
    producer.wait(batches)
    # The metadata is what both protocols recognise a batch by; the offset is that of the record.
    metadata = encode_slot_decision(decision.key)
    producer.send_offsets_to_transaction(
        {CARRIER: Committed(batches[0].base_offset, -1, metadata)}, sink_group(options.transactional_id)
    )


def read(options: SinkOptions, offset: int) -> SlotDecision:
    """The decision at an offset that the sink's group has."""
    assert options.transactional_id is not None
    try:
        return _decoded(_record_at(options, offset), options.transactional_id)
    except (KlammError, DecodeError, ValueError, KeyError, TypeError) as error:
        raise KlammError(
            f"the last decision of transactionalId {options.transactional_id}, offset {offset} of {TOPIC}, "
            f"cannot be read: {error}; restore the topic, or choose another transactionalId"
        ) from error


def _record_at(options: SinkOptions, offset: int) -> Record:
    # The group's offset says that the record is committed; other sinks' open transactions do not matter.
    settings = RangeSettings(poll_timeout_ms=10_000)
    with RangeReader(fetcher(options.client), CARRIER, offset, offset + 1, settings) as reader:
        for fetch in reader:
            for position, header in iter_headers(fetch.data):
                if header.base_offset <= offset < header.next_offset:
                    for record in decode_records(fetch.data, position):
                        if record.offset == offset:
                            return record
    raise KlammError("there is no such record")


def _decoded(record: Record, transactional_id: str) -> SlotDecision:
    if record.key != transactional_id.encode():
        raise ValueError(f"it belongs to {record.key!r}")
    value = json.loads(record.value or b"null")
    if value["version"] != _VERSION:
        raise ValueError(f"its version is {value['version']}, this klamm reads {_VERSION}")
    slots = tuple(Slot(**item) for item in value["slots"])
    return SlotDecision(BatchKey(value["query"], value["batch"]), slots)


def mark_group(transactional_id: str, number: int) -> str:
    """The group whose offset says which batch a slot has committed last."""
    return f"{sink_group(transactional_id)}.{number}"


def mark(key: BatchKey) -> Mapping[TopicPartition, Committed]:
    """Offsets for a slot's own transaction: visible when its rows are."""
    offset, metadata = encode_decision(key)
    return {CARRIER: Committed(offset, -1, metadata)}


def marked(options: SinkOptions, key: BatchKey, numbers: Sequence[int]) -> set[int]:
    """Which of these slots have committed a batch. None of them may have a transaction open."""
    assert options.transactional_id is not None
    found = set()
    for number in numbers:
        group = mark_group(options.transactional_id, number)
        committed = admin(options.client).list_group_offsets(group, [CARRIER], require_stable=True)
        item = committed.get(CARRIER)
        if item is not None and (item.offset, item.metadata) == encode_decision(key):
            found.add(number)
    return found
