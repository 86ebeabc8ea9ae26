"""Which tombstones remove a group or its offsets."""

from __future__ import annotations

from collections.abc import Iterator

from klamm.coordinator.group.consumer.tombstones import forget_consumer_group
from klamm.coordinator.group.remembered import GroupForgotten, GroupMemory, GroupRecord, OffsetForgotten


def offset_keys(memory: GroupMemory) -> Iterator[tuple[str, int]]:
    """Every partition that has an offset, committed or pending in a transaction."""
    for topic, table in memory.offsets.items():
        for partition in table.partitions():
            yield topic, partition
    for topic, partition in pending_keys(memory):
        if memory.committed(topic, partition) is None:
            yield topic, partition


def pending_keys(memory: GroupMemory) -> Iterator[tuple[str, int]]:
    """Every partition that has an offset in an open transaction; perhaps more than once."""
    for tables in memory.pending.values():
        for topic, table in tables.items():
            for partition in table.partitions():
                yield topic, partition


def forget_all(group_id: str, memory: GroupMemory) -> list[GroupRecord]:
    """Tombstones for everything the log has of a group, the group itself last."""
    records: list[GroupRecord] = [
        OffsetForgotten(group_id, topic, partition) for topic, partition in dict.fromkeys(offset_keys(memory))
    ]
    return records + forget_members(group_id, memory)


def forget_members(group_id: str, memory: GroupMemory) -> list[GroupRecord]:
    """Tombstones for what the log has of a group besides its offsets."""
    if memory.consumer is not None:
        return [*forget_consumer_group(group_id, memory.consumer)]
    return [] if memory.registration is None else [GroupForgotten(group_id)]
