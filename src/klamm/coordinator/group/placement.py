"""Where a group lives: the partition of `__consumer_offsets` that every client and broker agrees on."""

from __future__ import annotations

from struct import unpack

OFFSETS_TOPIC = "__consumer_offsets"


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 units, wrapping to signed 32 bits."""
    raw = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in unpack(f">{len(raw) // 2}H", raw):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(group_id: str, partition_count: int) -> int:
    """The partition of a group. The most negative hash has no absolute value and counts as 0, as in Kafka."""
    value = abs(java_hash(group_id))
    return 0 if value == 1 << 31 else value % partition_count
