"""What the modules for other libraries have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from klamm.client.consumer.group.listener import RebalanceListener
from klamm.client.consumer.offsets.positions import Committed
from klamm.protocol.types import TopicPartition

# Settings of kafka-python and aiokafka that have no counterpart because there is nothing to set.
WITHOUT_EFFECT: Final = frozenset(
    {
        "api_version",
        "api_version_auto_timeout_ms",
        "loop",
        "metric_group_prefix",
        "metric_reporters",
        "metrics_enabled",
        "metrics_num_samples",
        "metrics_sample_window_ms",
        "receive_buffer_bytes",
        "selector",
        "send_buffer_bytes",
        "sock_chunk_buffer_count",
        "sock_chunk_bytes",
        "socket_options",
    }
)


class OffsetAndMetadata(NamedTuple):
    """An offset to commit, fields in the order of kafka-python."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class OffsetAndTimestamp(NamedTuple):
    """An offset found by time."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


class ConsumerRebalanceListener:
    """Override what you care about; the methods may be coroutines in aiokafka's programs."""

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> Any:
        """Called before partitions are revoked."""

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> Any:
        """Called after partitions are assigned."""


class Listener(RebalanceListener):
    """Calls a listener of the other libraries."""

    def __init__(self, listener: Any) -> None:
        self._listener = listener

    def on_revoked(self, partitions: list[TopicPartition]) -> Any:
        return self._listener.on_partitions_revoked(partitions)

    def on_assigned(self, partitions: list[TopicPartition]) -> Any:
        return self._listener.on_partitions_assigned(partitions)


def adapted_listener(listener: Any) -> RebalanceListener | None:
    """klamm's kind of listener, made of theirs."""
    if listener is None or isinstance(listener, RebalanceListener):
        return listener
    return Listener(listener)


def settings_of(given: Mapping[str, Any], *, has_group: bool | None = None) -> dict[str, Any]:
    """Their settings as klamm's: less those without effect, with their default address."""
    settings = {name: value for name, value in given.items() if name not in WITHOUT_EFFECT}
    servers = settings.setdefault("bootstrap_servers", "localhost:9092")
    each = servers.split(",") if isinstance(servers, str) else list(servers)
    settings["bootstrap_servers"] = [item if ":" in item else f"{item}:9092" for item in each]
    if has_group is False:
        settings.pop("enable_auto_commit", None)  # nothing to commit to
    return settings


def committable(offsets: Mapping[TopicPartition, Any] | None) -> dict[TopicPartition, Any] | None:
    """Offsets to commit, from numbers, pairs and OffsetAndMetadata."""
    if offsets is None:
        return None
    found: dict[TopicPartition, Any] = {}
    for partition, item in offsets.items():
        if isinstance(item, tuple) and not isinstance(item, Committed):
            offset, metadata, epoch = (*item, *("", -1)[len(item) - 1 :])[:3]
            found[partition] = Committed(offset, epoch, metadata)
        else:
            found[partition] = item
    return found


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
