"""kafka-python's structures."""

from __future__ import annotations

from typing import Final, NamedTuple

from klamm.assignors.base import GroupMetadata
from klamm.compat.callers import OffsetAndTimestamp
from klamm.protocol.types import TopicPartition

__all__ = [
    "ConsumerGroupMetadata",
    "MemberState",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "TopicPartition",
    "TopicPartitionReplica",
]


class OffsetAndMetadata(NamedTuple):
    """An offset to commit."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class TopicPartitionReplica(NamedTuple):
    """One broker's copy of a partition."""

    topic: str
    partition: int
    broker_id: int


class MemberState:
    """How far a consumer is in joining its group."""

    UNJOINED: Final = "<unjoined>"
    REBALANCING: Final = "<rebalancing>"
    STABLE: Final = "<stable>"


class ConsumerGroupMetadata(NamedTuple):
    """A consumer's identity in its group, for `send_offsets_to_transaction`."""

    group_id: str | None = None
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    state: str = MemberState.UNJOINED

    def own(self) -> GroupMetadata:
        """klamm's."""
        return GroupMetadata(self.group_id or "", self.generation_id, self.member_id, self.group_instance_id)
