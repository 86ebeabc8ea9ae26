"""Which partition a record goes to: Java's answers, so that mixed producers agree on every key."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from random import Random

from klamm.net.cluster import TopicInfo
from klamm.records.murmur2 import murmur2

# A partitioner of one's own, of (topic, key, value, number of partitions). None: as if there were no key.
Partitioner = Callable[[str, bytes | None, bytes | None, int], int | None]


def partition_for_key(key: bytes, partitions: int) -> int:
    """Where Java's default partitioner puts a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class StickyPartitioner:
    """Records without a key stay with one partition for about a batch, then move on.

    The next one is drawn at random, partitions with shorter queues more often (adaptive, KIP-794).
    """

    def __init__(self, batch_size: int, *, is_adaptive: bool, random: Random) -> None:
        self._batch_size = max(1, batch_size)
        self._is_adaptive = is_adaptive
        self._random = random
        self._current: dict[str, tuple[int, int]] = {}  # topic -> (partition, bytes given to it)

    def choose(self, topic: TopicInfo, queued: Callable[[], Mapping[int, int]]) -> int:
        """The partition for the next record; `queued` is the number of waiting batches per partition."""
        current = self._current.get(topic.name)
        if current is not None and current[0] in topic.partitions:
            return current[0]
        chosen = self._draw(topic, queued())
        self._current[topic.name] = (chosen, 0)
        return chosen

    def took(self, topic: str, partition: int, size_bytes: int) -> None:
        """A batch of this size was closed; after enough bytes another partition is chosen.

        Only whole batches are counted, so none is cut short, and a stay ends before twice `batch.size`.
        """
        current = self._current.get(topic)
        if current is None or current[0] != partition:
            return
        given = current[1] + size_bytes
        if given >= self._batch_size:
            del self._current[topic]
        else:
            self._current[topic] = (partition, given)

    def _draw(self, topic: TopicInfo, queued: Mapping[int, int]) -> int:
        available = [item.partition for item in topic.partitions.values() if item.leader_id >= 0]
        candidates = sorted(available or topic.partitions)
        if not self._is_adaptive or len(candidates) == 1:
            return self._random.choice(candidates)
        steps = list(accumulate(weights([queued.get(number, 0) for number in candidates])))
        return candidates[bisect_right(steps, self._random.randrange(steps[-1]))]


def weights(queues: Sequence[int]) -> list[int]:
    """The weight of each partition: the longest queue plus one, less its own."""
    longest = max(queues)
    return [longest + 1 - queue for queue in queues]
