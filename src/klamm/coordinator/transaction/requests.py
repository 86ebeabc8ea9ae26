"""Requests as shards see them where the message on the wire has another shape."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition


class PartitionErrors(NamedTuple):
    """The response to AddPartitions: an error code for each requested partition."""

    errors: dict[TopicPartition, ErrorCode]


@dataclass(slots=True, kw_only=True)
class AddPartitions:
    """Add partitions to a transaction, or with `is_verify_only` check that they are part of it.

    AddPartitionsToTxn, AddOffsetsToTxn, and the broker's verification of a Produce or a TxnOffsetCommit.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition] = field(default_factory=frozenset)
    internal_partitions: frozenset[TopicPartition] = frozenset()  # among them, where they are not allowed
    is_verify_only: bool = False
    client_version: int = 0  # 2 when a Produce or TxnOffsetCommit adds its partitions itself
    is_answered_early: bool = False  # before it is durable: what follows is not durable before it either
