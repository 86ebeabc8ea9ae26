"""The hash that assigns keys to partitions, and the rule that Kafka's clients use it by."""

from __future__ import annotations

from klamm.protocol.types import Buffer
from klamm.records.core import murmur2

__all__ = ["murmur2", "partition_for_key"]


def partition_for_key(key: Buffer, partition_count: int) -> int:
    """The partition of a key, the same in every Kafka client. An empty key is a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
