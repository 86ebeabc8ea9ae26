"""Work outside the shard that a decision orders. It begins when the decision is durable."""

from __future__ import annotations

from typing import NamedTuple

from klamm.protocol.types import TopicPartition


class WriteMarkers(NamedTuple):
    """Write the marker that ends a transaction to partitions; `MarkersWritten` brings the results.

    The coordinator epoch of the markers is the leader epoch of the shard that orders them.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    partitions: frozenset[TopicPartition]
    transaction_version: int
    prepared_until: int  # the offset after the Prepare record: which transaction of the producer it is
    attempt: int = 0


class AllocateProducerId(NamedTuple):
    """Get a producer id that was never used; `ProducerIdAllocated` brings it."""

    transactional_id: str
