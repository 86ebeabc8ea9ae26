"""Choosing the partition of a key by its hash, as Kafka's clients do."""

from __future__ import annotations

from klamm.protocol.types import Buffer
from klamm.records.core import murmur2

__all__ = ["murmur2", "partition_for_key"]


def partition_for_key(key: Buffer, partition_count: int) -> int:
    """The partition of a key, the same in every Kafka client. An empty key is hashed too."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
