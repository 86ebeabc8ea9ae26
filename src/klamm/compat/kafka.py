"""kafka-python's classes on klamm's client: `from klamm.compat.kafka import KafkaConsumer, KafkaProducer`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from klamm.client.consumer.consumer import Consumer
from klamm.client.consumer.offsets.commits import Callback
from klamm.client.consumer.records import ConsumerRecord
from klamm.client.producer.delivery import RecordMetadata
from klamm.client.producer.producer import Producer
from klamm.compat.shared import (
    ConsumerRebalanceListener,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    adapted_listener,
    committable,
    new_partitions,
    own_partitioner,
    settings_of,
)
from klamm.errors import KlammError as KafkaError
from klamm.errors import KlammTimeoutError as KafkaTimeoutError
from klamm.errors import NoBrokersError as NoBrokersAvailable
from klamm.protocol.types import TopicPartition

__all__ = [
    "ConsumerRebalanceListener",
    "KafkaConsumer",
    "KafkaError",
    "KafkaProducer",
    "KafkaTimeoutError",
    "NoBrokersAvailable",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "RecordMetadata",
    "TopicPartition",
]


class KafkaConsumer:
    """kafka-python's consumer. Without `group_id` it reads all partitions of its topics."""

    def __init__(self, *topics: str, **configs: Any) -> None:
        self._has_group = configs.get("group_id") is not None
        self._timeout_ms = configs.pop("consumer_timeout_ms", None)
        self._consumer: Consumer[Any, Any] = Consumer(**settings_of(configs, has_group=self._has_group))
        self._groupless: set[str] = set()
        if topics:
            self.subscribe(topics)

    def subscribe(self, topics: Iterable[str] = (), pattern: Any = None, listener: Any = None) -> None:
        """Read topics, as a member of the group if there is one."""
        if self._has_group:
            self._consumer.subscribe(
                None if pattern is not None else topics, adapted_listener(listener), pattern=pattern
            )
            return
        if pattern is not None:
            raise ValueError("a pattern needs a group: set group_id")
        self._groupless = set(topics)
        self._take_groupless()

    def _take_groupless(self) -> None:
        found = new_partitions(self._groupless, self._consumer.list_topics(), self._consumer.assignment())
        if found:
            self._consumer.incremental_assign(found)

    def poll(
        self, timeout_ms: float = 0, max_records: int | None = None, update_offsets: bool = True
    ) -> dict[TopicPartition, list[ConsumerRecord[Any, Any]]]:
        """Records by partition; none after `timeout_ms`."""
        if self._groupless and not self._consumer.assignment():
            self._take_groupless()
            if not self._consumer.assignment():
                return {}
        return self._consumer.poll(timeout_ms / 1000, max_records=max_records).by_partition()

    def __iter__(self) -> Iterator[ConsumerRecord[Any, Any]]:
        return self

    def __next__(self) -> ConsumerRecord[Any, Any]:
        """The next record; StopIteration when `consumer_timeout_ms` pass without one."""
        if self._groupless and not self._consumer.assignment():
            self._take_groupless()
        record = self._consumer.getone(None if self._timeout_ms is None else self._timeout_ms / 1000)
        if record is None:
            raise StopIteration
        return record

    def unsubscribe(self) -> None:
        self._groupless = set()
        self._consumer.unsubscribe()

    def subscription(self) -> set[str] | None:
        return self._groupless or self._consumer.subscription() or None

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._consumer.assign(partitions)

    def assignment(self) -> set[TopicPartition]:
        return self._consumer.assignment()

    def commit(
        self, offsets: Mapping[TopicPartition, Any] | None = None, timeout_ms: int | None = None
    ) -> None:
        self._consumer.commit(committable(offsets), None if timeout_ms is None else timeout_ms / 1000)

    def commit_async(
        self, offsets: Mapping[TopicPartition, Any] | None = None, callback: Callback | None = None
    ) -> None:
        self._consumer.commit_async(committable(offsets), callback)

    def committed(self, partition: TopicPartition, metadata: bool = False) -> Any:
        """The committed offset of one partition, or None."""
        found = self._consumer.committed([partition])[partition]
        if found is None or not metadata:
            return None if found is None else found.offset
        return OffsetAndMetadata(found.offset, found.metadata, found.leader_epoch)

    def position(self, partition: TopicPartition) -> int:
        return self._consumer.position(partition)

    def highwater(self, partition: TopicPartition) -> int | None:
        """The offset after the last record that can be read, as the last fetch saw it."""
        lag = self._consumer.lag(partition)
        return None if lag is None else self._consumer.position(partition) + lag

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._consumer.seek(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        self._consumer.seek_to_beginning(*partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        self._consumer.seek_to_end(*partitions)

    def pause(self, *partitions: TopicPartition) -> None:
        self._consumer.pause(*partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        self._consumer.resume(*partitions)

    def paused(self) -> set[TopicPartition]:
        return self._consumer.paused()

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._consumer.beginning_offsets(partitions)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._consumer.end_offsets(partitions)

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        found = self._consumer.offsets_for_times(timestamps)
        return {
            key: None
            if item is None
            else OffsetAndTimestamp(item.offset, item.timestamp_ms, item.leader_epoch)
            for key, item in found.items()
        }

    def topics(self) -> set[str]:
        return self._consumer.topics()

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return {partition for _, partition in self._consumer.partitions_for(topic)} or None

    def bootstrap_connected(self) -> bool:
        """Whether the cluster has answered and can be reached."""
        return self._consumer.health().last_error is None

    def metrics(self, raw: bool = False) -> dict[str, dict[str, int]]:
        return {"consumer-metrics": self._consumer.metrics()}

    def close(self, autocommit: bool = True, timeout_ms: int | None = None) -> None:
        self._consumer._operations.leaves_without_commit = not autocommit
        self._consumer.close(30.0 if timeout_ms is None else timeout_ms / 1000)

    def __enter__(self) -> KafkaConsumer:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


class KafkaProducer(Producer):
    """kafka-python's producer: futures have `get`, `add_callback` and `add_errback`."""

    def __init__(self, **configs: Any) -> None:
        partitioner = configs.pop("partitioner", None)
        if partitioner is not None:
            configs["partitioner_class"] = own_partitioner(partitioner)
        super().__init__(**settings_of(configs))

    def partitions_for(self, topic: str) -> set[int]:  # type: ignore[override]  # theirs are numbers
        return {partition for _, partition in super().partitions_for(topic)}

    def bootstrap_connected(self) -> bool:
        """Whether the cluster can be reached."""
        return self.health().is_healthy

    def metrics(self, raw: bool = False) -> dict[str, dict[str, float]]:  # type: ignore[override]  # nested there
        return {"producer-metrics": super().metrics()}
