"""Kafka's hash of the topics that a group reads: when it changes, the epoch of the group rises."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final

from xxhash import xxh3_64_intdigest

from klamm.assignors.base import PartitionView
from klamm.coordinator.group.topics import KnownTopic, TopicDirectory

_INT32: Final = Struct("<i")
_INT64: Final = Struct("<q")


def topics_hash(directory: TopicDirectory | None, names: Iterable[str]) -> int:
    """Of those that exist; 0 if none does."""
    if directory is None:
        return 0
    hashes = [
        topic_hash(known, directory.partition_views(name))
        for name in sorted(names)
        if (known := directory.by_name(name)) is not None
    ]
    return _signed(b"".join(map(_INT64.pack, hashes))) if hashes else 0


def topic_hash(topic: KnownTopic, partitions: Sequence[PartitionView]) -> int:
    """Of its id, name, partitions, and the racks of their replicas."""
    high, low = topic.topic_id[:8][::-1], topic.topic_id[8:][::-1]
    parts = [b"\x00", high, low, _text(topic.name), _INT32.pack(topic.partition_count)]
    for index in range(topic.partition_count):
        parts.append(_INT32.pack(index))
        if index < len(partitions):
            for rack in sorted(partitions[index].replica_racks):
                parts += (_INT32.pack(len(rack)), _text(rack))
    return _signed(b"".join(parts))


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + _INT32.pack(len(units) // 2)


def _signed(content: bytes) -> int:
    value: int = xxh3_64_intdigest(content)
    return value - (1 << 64) if value >> 63 else value
