"""Which tombstones remove a group of the consumer protocol, in Kafka's order."""

from __future__ import annotations

from klamm.coordinator.group.consumer.remembered import (
    ConsumerCurrent,
    ConsumerGroupEpoch,
    ConsumerMember,
    ConsumerMemory,
    ConsumerRecord,
    ConsumerRegex,
    ConsumerTarget,
    ConsumerTargetEpoch,
    ConsumerTopicMetadata,
)


def forget_consumer_group(group_id: str, memory: ConsumerMemory) -> list[ConsumerRecord]:
    """Tombstones for everything that the log has of the group's members, and for the group, last."""
    records: list[ConsumerRecord] = [ConsumerCurrent(group_id, each, None) for each in memory.current]
    records += [ConsumerTarget(group_id, each, None) for each in memory.targets]
    records.append(ConsumerTargetEpoch(group_id, None))
    records += [ConsumerMember(group_id, each, None) for each in memory.members]
    records += [ConsumerRegex(group_id, each, None) for each in memory.regexes]
    if memory.topics_written:
        records.append(ConsumerTopicMetadata(group_id))
    records.append(ConsumerGroupEpoch(group_id, None))
    return records
