"""aiokafka's classes on klamm's client: AIOKafkaConsumer, AIOKafkaProducer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Self

from klamm.aio.consumer import Consumer
from klamm.aio.producer import Producer
from klamm.client.consumer.polling.hosts import run_blocking
from klamm.client.consumer.records import ConsumerRecord
from klamm.client.producer.delivery import Delivery, RecordMetadata
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
from klamm.protocol.types import TopicPartition

__all__ = [
    "AIOKafkaConsumer",
    "AIOKafkaProducer",
    "ConsumerRebalanceListener",
    "KafkaError",
    "KafkaTimeoutError",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "TopicPartition",
]


class AIOKafkaConsumer:
    """aiokafka's consumer. Without `group_id` it reads all partitions of its topics."""

    def __init__(self, *topics: str, **configs: Any) -> None:
        self._has_group = configs.get("group_id") is not None
        self._timeout_ms = configs.pop("consumer_timeout_ms", None)
        self._consumer: Consumer[Any, Any] = Consumer(**settings_of(configs, has_group=self._has_group))
        self._groupless: set[str] = set()
        self._leaving: set[asyncio.Task[None]] = set()
        if topics:
            self.subscribe(topics)

    async def start(self) -> None:
        await self._take_groupless()

    async def stop(self) -> None:
        await self._consumer.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.stop()

    def subscribe(self, topics: Iterable[str] = (), pattern: Any = None, listener: Any = None) -> None:
        """Read topics, as a member of the group if there is one."""
        if not self._has_group:
            if pattern is not None:
                raise ValueError("a pattern needs a group: set group_id")
            self._groupless = set(topics)
            return
        operations = self._consumer._operations
        names = None if pattern is not None else list(topics)
        run_blocking(operations.subscribe(names, pattern, adapted_listener(listener)))

    async def _take_groupless(self) -> None:
        if not self._groupless or self._consumer.assignment():
            return
        found = new_partitions(self._groupless, await self._consumer.list_topics(), set())
        if found:
            await self._consumer.assign(found)

    def unsubscribe(self) -> None:
        """Leave the group, in the background."""
        self._groupless = set()
        task = asyncio.get_running_loop().create_task(self._consumer.unsubscribe())
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    def subscription(self) -> frozenset[str]:
        return frozenset(self._groupless or self._consumer.subscription())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        run_blocking(self._consumer._operations.assign(list(partitions)))

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._consumer.assignment())

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord[Any, Any]:
        """The next record, of these partitions alone if any are named."""
        await self._take_groupless()
        if partitions:
            while True:
                for records in (
                    await self._consumer.getmany(*partitions, timeout_ms=1000, max_records=1)
                ).values():
                    return records[0]
        while (record := await self._consumer.getone()) is None:
            continue
        return record

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[Any, Any]]]:
        await self._take_groupless()
        return await self._consumer.getmany(*partitions, timeout_ms=timeout_ms, max_records=max_records)

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord[Any, Any]]:
        """Records, for ever, or until `consumer_timeout_ms` pass without one."""
        await self._take_groupless()
        timeout_s = None if self._timeout_ms is None else self._timeout_ms / 1000
        while (record := await self._consumer.getone(timeout_s)) is not None:
            yield record

    async def commit(self, offsets: Mapping[TopicPartition, Any] | None = None) -> None:
        await self._consumer.commit(committable(offsets))

    async def committed(self, partition: TopicPartition) -> int | None:
        found = (await self._consumer.committed([partition]))[partition]
        return None if found is None else found.offset

    async def position(self, partition: TopicPartition) -> int:
        return await self._consumer.position(partition)

    def highwater(self, partition: TopicPartition) -> int | None:
        state = self._consumer._operations.state[partition]
        return state.high_watermark if state.high_watermark >= 0 else None

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        state = self._consumer._operations.state[partition]
        return state.last_stable_offset if state.last_stable_offset >= 0 else None

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._consumer.seek(partition, offset)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> bool:
        self._consumer.seek_to_beginning(*partitions)
        return True

    async def seek_to_end(self, *partitions: TopicPartition) -> bool:
        self._consumer.seek_to_end(*partitions)
        return True

    async def seek_to_committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int | None]:
        """Go back to the committed offsets; returns them."""
        wanted = partitions or tuple(self._consumer.assignment())
        self._consumer.seek_to_committed(*wanted)
        found = await self._consumer.committed(wanted)
        return {key: None if item is None else item.offset for key, item in found.items()}

    def pause(self, *partitions: TopicPartition) -> None:
        self._consumer.pause(*partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        self._consumer.resume(*partitions)

    def paused(self) -> set[TopicPartition]:
        return self._consumer.paused()

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await self._consumer.beginning_offsets(partitions)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await self._consumer.end_offsets(partitions)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        found = await self._consumer.offsets_for_times(timestamps)
        return {
            key: None
            if item is None
            else OffsetAndTimestamp(item.offset, item.timestamp_ms, item.leader_epoch)
            for key, item in found.items()
        }

    async def topics(self) -> set[str]:
        return await self._consumer.topics()

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The partitions of a topic that the client has metadata of."""
        known = self._consumer._operations.engine.core.metadata.cluster.topics.get(topic)
        return set(known.partitions) if known else None


class Batch:
    """Records that `send_batch` sends together to one partition."""

    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size
        self._used_bytes = 0
        self.records: list[tuple[bytes | None, bytes | None, int | None, Any]] = []

    def append(
        self, *, key: bytes | None, value: bytes | None, timestamp: int | None, headers: Any = ()
    ) -> object | None:
        """Add a record; None if it does not fit any more."""
        size = 30 + len(key or b"") + len(value or b"")
        if self.records and self._used_bytes + size > self._batch_size:
            return None
        self._used_bytes += size
        self.records.append((key, value, timestamp, headers))
        return self.records[-1]

    def record_count(self) -> int:
        return len(self.records)

    def size(self) -> int:
        return self._used_bytes

    def close(self) -> None:
        """Do nothing: the producer closes it when it is sent."""


class AIOKafkaProducer(Producer):
    """aiokafka's producer."""

    def __init__(self, **configs: Any) -> None:
        for theirs, ours in (("max_batch_size", "batch_size"),):
            if theirs in configs:
                configs[ours] = configs.pop(theirs)
        partitioner = configs.pop("partitioner", None)
        if partitioner is not None:
            configs["partitioner_class"] = own_partitioner(partitioner)
        self._is_transactional = configs.get("transactional_id") is not None
        self._max_batch_size = int(configs.get("batch_size", 16_384))
        super().__init__(**settings_of(configs))

    async def start(self) -> None:
        """Get the transactional id, if there is one."""
        if self._is_transactional:
            await self.init_transactions()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    def create_batch(self) -> Batch:
        return Batch(self._max_batch_size)

    async def send_batch(self, batch: Batch, topic: str, *, partition: int) -> asyncio.Future[RecordMetadata]:
        """Send the records of a batch to one partition; a future of the first one's place."""
        if not batch.records:
            raise ValueError("the batch is empty")
        sent: list[Delivery] = [
            await self.send(topic, value, key, headers, partition, timestamp_ms)
            for key, value, timestamp_ms, headers in batch.records
        ]

        async def settled() -> RecordMetadata:
            places = [await delivery for delivery in sent]
            return places[0]

        return asyncio.ensure_future(settled())

    async def partitions_for(self, topic: str) -> set[int]:  # type: ignore[override]  # theirs are numbers
        return {partition for _, partition in await super().partitions_for(topic)}
