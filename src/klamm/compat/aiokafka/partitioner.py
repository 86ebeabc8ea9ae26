"""aiokafka's partitioner."""

from __future__ import annotations

import random
from collections.abc import Sequence

from klamm.records.core import murmur2

__all__ = ["DefaultPartitioner", "murmur2"]


class DefaultPartitioner:
    """By murmur2 of the key, or any partition where there is no key."""

    @classmethod
    def __call__(cls, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int]) -> int:
        if key is None:
            return random.choice(available or all_partitions)
        return all_partitions[(murmur2(key) & 0x7FFFFFFF) % len(all_partitions)]
