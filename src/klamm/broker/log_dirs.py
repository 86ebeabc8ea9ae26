"""Several log directories as one store: each partition lives in one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from klamm.storage.log import LogDirStatus, LogStore, PartitionLog
from klamm.storage.topic_config import TopicConfig


class LogDirs:
    """A LogStore over others; a new partition goes where the fewest are."""

    def __init__(self, stores: Sequence[LogStore]) -> None:
        """Raises ValueError when two directories have the same partition: nobody knows which is right."""
        self._stores = stores
        self._places: dict[tuple[str, int], int] = {}
        for number, store in enumerate(stores):
            for topic, partition, _ in store.existing():
                if (topic, partition) in self._places:
                    raise ValueError(f"{topic}-{partition} is in two log directories: remove one of them")
                self._places[topic, partition] = number

    def open(
        self, topic: str, topic_id: bytes, partition: int, *, leader_epoch: int, config: TopicConfig
    ) -> PartitionLog:
        number = self._places.get((topic, partition))
        if number is None:
            counts = Counter(self._places.values())
            number = min(range(len(self._stores)), key=lambda each: counts[each])
            self._places[topic, partition] = number
        return self._stores[number].open(topic, topic_id, partition, leader_epoch=leader_epoch, config=config)

    def existing(self) -> Iterable[tuple[str, int, bytes]]:
        return [found for store in self._stores for found in store.existing()]

    def delete(self, topic: str, partition: int) -> None:
        number = self._places.pop((topic, partition), None)
        if number is not None:
            self._stores[number].delete(topic, partition)

    def set_aside(self, topic: str, partition: int) -> str:
        return self._stores[self._places.pop((topic, partition))].set_aside(topic, partition)

    def status(self) -> Sequence[LogDirStatus]:
        return [status for store in self._stores for status in store.status()]

    def checkpoint(self) -> None:
        for store in self._stores:
            store.checkpoint()

    def housekeeping(self, now_ms: int, timestamp_ms: int) -> None:
        for store in self._stores:
            store.housekeeping(now_ms, timestamp_ms)

    def close(self) -> None:
        for store in self._stores:
            store.close()
