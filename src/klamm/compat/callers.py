"""What programs for kafka-python and aiokafka pass and get: listeners, offsets, partitioners."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from inspect import isawaitable
from typing import Any, NamedTuple

from klamm.client.committed import Committed
from klamm.client.consumer.group.listener import RebalanceListener
from klamm.client.consumer.offsets.lookup import FoundOffset
from klamm.protocol.types import TopicPartition


class OffsetAndTimestamp(NamedTuple):
    """An offset found by time."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


class ConsumerRebalanceListener:
    """Override what you care about; the methods may be coroutines in aiokafka's programs."""

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> Any:
        """Called before partitions are revoked."""

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> Any:
        """Called after partitions are assigned."""


class ForeignListener(RebalanceListener):
    """Calls a listener of the other libraries, with sets of partitions.

    Theirs is told before every eager rebalance that its partitions are revoked, even when it has none.
    """

    def __init__(self, listener: Any, *, is_eager: bool = True) -> None:
        self._listener = listener
        self._tells_of_none = is_eager
        self._was_told = False

    def on_revoked(self, partitions: list[TopicPartition]) -> Any:
        self._was_told = True
        return self._listener.on_partitions_revoked(set(partitions))

    def on_assigned(self, partitions: list[TopicPartition]) -> Any:
        first = self.on_revoked([]) if self._tells_of_none and not self._was_told else None
        self._was_told = False
        if isawaitable(first):
            return self._assigned_after(first, partitions)
        return self._listener.on_partitions_assigned(set(partitions))

    async def _assigned_after(self, first: Awaitable[Any], partitions: list[TopicPartition]) -> None:
        await first
        assigned = self._listener.on_partitions_assigned(set(partitions))
        if isawaitable(assigned):
            await assigned

    def on_lost(self, partitions: list[TopicPartition]) -> Any:
        lost = getattr(self._listener, "on_partitions_lost", None)
        if lost is None:
            return self.on_revoked(partitions)
        self._was_told = True
        return lost(set(partitions))


def adapted_listener(listener: Any, *, is_eager: bool = True) -> RebalanceListener | None:
    """klamm's kind of listener, made of theirs."""
    if listener is None or isinstance(listener, RebalanceListener):
        return listener
    if not all(
        callable(getattr(listener, f"on_partitions_{what}", None)) for what in ("revoked", "assigned")
    ):
        raise TypeError(f"a listener has on_partitions_revoked and on_partitions_assigned: not {listener!r}")
    return ForeignListener(listener, is_eager=is_eager)


def chosen_topics(topics: Any, pattern: Any) -> list[str] | None:
    """Topics of `subscribe`, None with a pattern. Text would be topics of one letter each."""
    if isinstance(topics, str) or not isinstance(topics, Iterable):
        raise TypeError(f"topics should be a list of strings, not {topics!r}")
    names = list(topics)
    if bool(names) == (pattern is not None):
        raise TypeError("subscribe expects topics or a pattern: give exactly one")
    return names if pattern is None else None


def committable(offsets: Mapping[TopicPartition, Any] | None) -> dict[TopicPartition, Any] | None:
    """Offsets to commit, from numbers, pairs and OffsetAndMetadata (offset, metadata, leader epoch)."""
    if offsets is None:
        return None
    if not isinstance(offsets, Mapping):
        raise TypeError(f"offsets is a dictionary by partition, not {type(offsets).__name__}")
    found: dict[TopicPartition, Any] = {}
    for partition, item in offsets.items():
        if isinstance(item, tuple) and not isinstance(item, Committed):
            offset, metadata, epoch = (*item, *("", -1)[len(item) - 1 :])[:3]
            found[partition] = Committed(offset, epoch, metadata or "")
        else:
            found[partition] = item
    return found


def found_by_time(
    found: Mapping[TopicPartition, FoundOffset | None],
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """Answers to `offsets_for_times`."""
    return {
        key: None if item is None else OffsetAndTimestamp(item.offset, item.timestamp_ms, item.leader_epoch)
        for key, item in found.items()
    }


def new_partitions(
    topics: Iterable[str], known: Mapping[str, Any], assigned: set[TopicPartition]
) -> list[TopicPartition]:
    """Partitions of topics that a consumer without a group does not read yet."""
    listed = [
        TopicPartition(name, number) for name in topics if name in known for number in known[name].partitions
    ]
    return [partition for partition in listed if partition not in assigned]


def own_partitioner(partitioner: Any) -> Any:
    """kafka-python's partitioners take the key, all partitions and the available ones."""

    def choose(topic: str, key: bytes | None, value: bytes | None, partitions: int) -> int:
        numbers = list(range(partitions))
        return int(partitioner(key, numbers, numbers))

    return choose
