"""Offsets in a transaction: arguments, the request, and the error codes of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from klamm.assignors.base import GroupMetadata
from klamm.client.committed import Committed
from klamm.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from klamm.protocol.types import TopicPartition


def group_of(group: Any) -> GroupMetadata:
    """The group argument of `send_offsets_to_transaction`; a name alone is not fenced."""
    if isinstance(group, GroupMetadata):
        return group
    if isinstance(group, str):
        if not group.strip():
            raise ValueError("the group id is empty: pass consumer.group_metadata()")
        return GroupMetadata(group_id=group)
    raise TypeError(f"the group is consumer.group_metadata(), or a group id, not {group!r}")


def offset_commit_request(
    transactional_id: str,
    identity: tuple[int, int],
    offsets: Mapping[TopicPartition, Committed],
    group: GroupMetadata,
) -> TxnOffsetCommitRequest:
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for partition, committed in sorted(offsets.items()):
        topics.setdefault(partition.topic, []).append(
            TxnOffsetCommitRequestPartition(
                partition.partition, committed.offset, committed.leader_epoch, committed.metadata
            )
        )
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=identity[0],
        producer_epoch=identity[1],
        generation_id=group.generation,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[TxnOffsetCommitRequestTopic(name, items) for name, items in topics.items()],
    )


def offset_error_codes(response: TxnOffsetCommitResponse) -> list[int]:
    return [item.error_code for topic in response.topics for item in topic.partitions]
