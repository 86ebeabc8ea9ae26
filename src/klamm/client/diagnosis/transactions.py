"""Transactions that are open on partitions: what holds back readers with isolation.level=read_committed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from klamm.client.admin.admin import Admin
from klamm.client.diagnosis.lag import committed_offsets
from klamm.groups.snapshot import PartitionTransaction
from klamm.protocol.types import TopicPartition


def open_transactions(admin: Admin, partitions: Sequence[TopicPartition]) -> list[PartitionTransaction]:
    """The transactions that these partitions have open, in order. Raises KlammError."""
    if not partitions:
        return []
    found = [
        (key, producer)
        for key, producers in sorted(admin.describe_producers(partitions).unwrap().items())
        for producer in producers
        if producer.current_txn_start_offset >= 0
    ]
    ids = sorted({producer.producer_id for _, producer in found})
    listed = admin.list_transactions(producer_ids=ids) if ids else []
    names = {item.producer_id: item.transactional_id for item in listed}
    return [
        PartitionTransaction(
            key,
            producer.current_txn_start_offset,
            producer.producer_id,
            producer.producer_epoch,
            producer.last_timestamp_ms,
            names.get(producer.producer_id),
        )
        for key, producer in found
    ]


def with_their_times(admin: Admin, found: Sequence[PartitionTransaction]) -> list[PartitionTransaction]:
    """The same with what their coordinators know: since when they are open, and for how long they may be."""
    names = sorted({item.transactional_id for item in found if item.transactional_id is not None})
    described = admin.describe_transactions(names, raise_errors=False).successes if names else {}
    return [
        replace(item, started_at_ms=known.start_time_ms, timeout_ms=known.timeout_ms)
        if item.transactional_id is not None
        and (known := described.get(item.transactional_id)) is not None
        and known.producer_id == item.producer_id
        else item
        for item in found
    ]


def held_back(admin: Admin, partitions: Collection[TopicPartition]) -> dict[TopicPartition, list[str]]:
    """The groups whose committed offset is the last stable one of a partition, with records after it."""
    if not partitions:
        return {}
    stable = admin.list_offsets(partitions, read_committed=True, raise_errors=False).successes
    ends = admin.list_offsets(partitions, raise_errors=False).successes
    waiting = {
        key: item.offset for key, item in stable.items() if key in ends and item.offset < ends[key].offset
    }
    if not waiting:
        return {}
    found: dict[TopicPartition, list[str]] = {}
    names = [item.group_id for item in admin.list_groups()]
    for group_id, offsets in zip(names, committed_offsets(admin, names), strict=True):
        for key, committed in offsets.items():
            if waiting.get(key) == committed.offset:
                found.setdefault(key, []).append(group_id)
    return found
