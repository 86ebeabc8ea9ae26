"""Which partitions moved while a sticky assignment is balanced, and which should move back first."""

from __future__ import annotations

from klamm.assignors.base import TopicPartition


class Moves:
    """Moves of partitions since balancing began; consecutive moves of a partition are stored as one."""

    def __init__(self) -> None:
        self._by_partition: dict[TopicPartition, tuple[str, str]] = {}
        self._by_route: dict[tuple[str, str, str], _Travellers] = {}

    def better_choice(self, partition: TopicPartition, holder: str, target: str) -> TopicPartition:
        """The partition to move instead: one of its topic that was moved away from the target."""
        origin = self._by_partition.get(partition, (holder, ""))[0]
        travellers = self._by_route.get((partition.topic, target, origin))
        return travellers.first() if travellers else partition

    def note(self, partition: TopicPartition, source: str, target: str) -> None:
        """Record the move of a partition from source to target."""
        origin = source
        if partition in self._by_partition:
            origin, destination = self._by_partition.pop(partition)
            route = (partition.topic, origin, destination)
            self._by_route[route].remove(partition)
            if not self._by_route[route]:
                del self._by_route[route]
        if origin != target:
            self._by_partition[partition] = (origin, target)
            self._by_route.setdefault((partition.topic, origin, target), _Travellers()).add(partition)


class _Travellers:
    """Partitions of one topic with the same move, in the order in which Kafka picks them.

    Any of them would be valid. Kafka picks the first of a Java hash set, so the order of its buckets is
    followed: a group then gets the same result whether its leader is a Java client or klamm.
    """

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, None] = {}
        self._bucket_count = 16

    def __len__(self) -> int:
        return len(self._partitions)

    def add(self, partition: TopicPartition) -> None:
        self._partitions[partition] = None
        if len(self._partitions) * 4 > self._bucket_count * 3:  # a hash set grows at three quarters, for good
            self._bucket_count *= 2

    def remove(self, partition: TopicPartition) -> None:
        del self._partitions[partition]

    def first(self) -> TopicPartition:
        """The first in the first bucket; a bucket is in insertion order."""
        return min(self._partitions, key=self._bucket)

    def _bucket(self, partition: TopicPartition) -> int:
        code = (31 * (31 + partition.partition) + _java_hash(partition.topic)) & 0xFFFFFFFF
        return (code ^ code >> 16) & (self._bucket_count - 1)


def _java_hash(text: str) -> int:
    """Java's String.hashCode, of which only the low 32 bits count here."""
    raw = text.encode("utf-16-be")
    code = 0
    for high, low in zip(raw[::2], raw[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return code
