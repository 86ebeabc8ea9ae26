"""Several log directories as one store: each partition is in one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from klamm.protocol.types import TopicPartition
from klamm.storage.durability import Background, Report, SyncRounds
from klamm.storage.log import EngineLog, LogDirStatus, LogError, LogStore, Work
from klamm.storage.topic_config import TopicConfig


class LogDir(LogStore, Protocol):
    """A store in one directory."""

    def holds(self, topic: str, partition: int) -> bool:
        """Whether the directory has the log of a partition."""
        ...


class LogDirs:
    """A LogStore over others; a new partition is created in the one with the fewest."""

    def __init__(self, stores: Sequence[LogDir]) -> None:
        """Raises ValueError when two directories hold the same partition."""
        self._stores = stores
        self._places: dict[tuple[str, int], int] = {}
        self._counts = [0] * len(stores)  # of the places in each
        for number, store in enumerate(stores):
            for topic, partition, _ in store.existing():
                if (topic, partition) in self._places:
                    raise ValueError(f"{topic}-{partition} exists in two log directories: remove one of them")
                self._put(topic, partition, number)

    def _put(self, topic: str, partition: int, number: int) -> None:
        self._take(topic, partition)
        self._places[topic, partition] = number
        self._counts[number] += 1

    def _take(self, topic: str, partition: int) -> int | None:
        number = self._places.pop((topic, partition), None)
        if number is not None:
            self._counts[number] -= 1
        return number

    def open(
        self, topic: str, topic_id: bytes, partition: int, *, leader_epoch: int, config: TopicConfig
    ) -> EngineLog:
        # Another broker may have created it, or deleted it and created it elsewhere.
        holding = [number for number, store in enumerate(self._stores) if store.holds(topic, partition)]
        number = holding[0] if holding else None
        if number is None:
            number = self._next()
        self._put(topic, partition, number)
        return self._stores[number].open(topic, topic_id, partition, leader_epoch=leader_epoch, config=config)

    def _next(self) -> int:
        """Where a new partition is created: not on a full disk, if another has room."""
        numbers = range(len(self._stores))
        return min(numbers, key=lambda number: (bool(self._stores[number].why_full()), self._counts[number]))

    def rounds(self, broker: Background, report: Report) -> SyncRounds:
        return self._stores[0].rounds(broker, report)  # it flushes logs of any of them

    def existing(self) -> Iterable[tuple[str, int, bytes]]:
        return [found for store in self._stores for found in store.existing()]

    def abandon(self, topic: str, partition: int) -> None:
        number = self._places.get((topic, partition))
        if number is not None:
            self._stores[number].abandon(topic, partition)

    def leaders_changed(self) -> None:
        for store in self._stores:
            store.leaders_changed()

    def close_log(self, topic: str, partition: int) -> None:
        number = self._places.get((topic, partition))
        if number is not None:
            self._stores[number].close_log(topic, partition)

    def topic_id_at(self, topic: str, partition: int) -> bytes | None:
        found = (store.topic_id_at(topic, partition) for store in self._stores)
        return next((topic_id for topic_id in found if topic_id is not None), None)

    def delete(self, topic: str, partition: int) -> None:
        number = self._take(topic, partition)
        if number is not None:
            self._stores[number].delete(topic, partition)

    def set_aside(self, topic: str, partition: int) -> str:
        number = self._take(topic, partition)
        assert number is not None, f"{topic}-{partition} is in no directory"
        return self._stores[number].set_aside(topic, partition)

    def status(self) -> Sequence[LogDirStatus]:
        return [
            replace(status, holds=partial(self._is_in, number))
            for number, store in enumerate(self._stores)
            for status in store.status()
        ]

    def _is_in(self, number: int, topic: str, partition: int) -> bool:
        return self._places.get((topic, partition)) == number

    def why_full(self) -> str:
        reasons = [store.why_full() for store in self._stores]
        return "; ".join(reasons) if all(reasons) else ""

    def start_checkpoint(self, places: Iterable[TopicPartition] | None = None) -> Work:
        some = None if places is None else list(places)
        return _all_of([store.start_checkpoint(some) for store in self._stores])

    def start_saving_log_starts(self) -> Work:
        return _all_of([store.start_saving_log_starts() for store in self._stores])

    def start_housekeeping(self, now_ms: int) -> Work | None:
        started = [store.start_housekeeping(now_ms) for store in self._stores]
        due = [work for work in started if work is not None]
        return _all_of(due) if due else None

    def close(self) -> None:
        for store in self._stores:
            store.close()


def _all_of(works: Sequence[Work]) -> Work:
    """Run the work of each directory, even when another fails."""

    def work() -> None:
        failure: LogError | None = None
        for each in works:
            try:
                each()
            except LogError as error:
                failure = error
        if failure is not None:
            raise failure

    return work
