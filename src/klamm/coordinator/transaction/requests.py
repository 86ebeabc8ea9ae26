"""Requests as shards see them where the message on the wire has another shape."""

from __future__ import annotations

from typing import NamedTuple

from klamm.coordinator.runtime.fields import Fields
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition


class PartitionErrors(NamedTuple):
    """The response to AddPartitions: an error code for each requested partition."""

    errors: dict[TopicPartition, ErrorCode]


class AddPartitions(Fields):
    """Add partitions to a transaction, or with `is_verify_only` check that they are part of it.

    AddPartitionsToTxn, AddOffsetsToTxn, and the broker's verification of a Produce or a TxnOffsetCommit.
    """

    __slots__ = (
        "client_version", "internal_partitions", "is_answered_early", "is_verify_only", "partitions",
        "producer_epoch", "producer_id", "transactional_id",
    )  # fmt: skip

    def __init__(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition] = frozenset(),
        is_verify_only: bool = False,
        client_version: int = 0,  # 2 when a Produce or TxnOffsetCommit adds its partitions itself
        is_answered_early: bool = False,  # before it is durable: what follows is not durable before it either
        internal_partitions: frozenset[
            TopicPartition
        ] = frozenset(),  # among them, where they are not allowed
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.partitions = partitions
        self.is_verify_only = is_verify_only
        self.client_version = client_version
        self.is_answered_early = is_answered_early
        self.internal_partitions = internal_partitions
