"""aiokafka's consumer on klamm's."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Final, Self

from klamm.aio.consumer import Consumer
from klamm.client.consumer.polling.hosts import run_blocking
from klamm.client.consumer.records import ConsumerRecord
from klamm.compat.bootstrap import wait_for_cluster
from klamm.compat.callers import (
    OffsetAndTimestamp,
    adapted_listener,
    chosen_topics,
    committable,
    found_by_time,
    new_partitions,
)
from klamm.compat.kafka.serializer import own_serializer
from klamm.compat.python_settings import AIOKAFKA, assignor_names, own_settings
from klamm.compat.settings import ClientKind
from klamm.errors import (
    ConsumerStoppedError,
    DisconnectedError,
    IllegalStateError,
    KlammTimeoutError,
    NoBrokersError,
)
from klamm.protocol.types import TopicPartition

# Where aiokafka's default gives other results than klamm's.
DEFAULTS: Final[Mapping[str, Any]] = {
    "partition_assignment_strategy": ("roundrobin",),
    "request_timeout_ms": 40_000,
    "session_timeout_ms": 10_000,
}


JOIN_STEP_MS: Final = 100  # the end of a join is looked for so often
TOPIC_STEP_MS: Final = 200  # and without a group, topics that do not exist yet


class AIOKafkaConsumer:
    """aiokafka's consumer. Without `group_id` it reads all partitions of its topics."""

    def __init__(self, *topics: str, **configs: Any) -> None:
        made = {**DEFAULTS, **own_settings(AIOKAFKA, configs, ClientKind.CONSUMER)}
        if made.get("max_poll_records", 0) is None:
            del made["max_poll_records"]
        for name in ("key_deserializer", "value_deserializer"):
            made[name] = own_serializer(made.get(name), "deserialize")
        made["partition_assignment_strategy"] = assignor_names(made["partition_assignment_strategy"])
        self._has_group = made.get("group_id") is not None
        self._start_limit_ms = int(made["request_timeout_ms"])
        self._consumer: Consumer[Any, Any] = Consumer(**made)
        self._groupless: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        if topics:
            self.subscribe(topics)

    async def start(self) -> None:
        """Wait for the cluster; raises KafkaConnectionError when no broker answers."""
        try:
            host = self._consumer._operations.host
            await asyncio.to_thread(wait_for_cluster, host, self._start_limit_ms)
        except (NoBrokersError, KlammTimeoutError) as error:
            raise DisconnectedError(f"Unable to bootstrap: {error}") from error
        await self._take_groupless()
        await self._join()

    async def _join(self) -> None:
        """As there, a started consumer of a group has its partitions; records wait for the first read."""
        operations = self._consumer._operations
        while operations.state.is_auto and not operations.engine.history.has_joined:
            await self._consumer._poller.poll(operations.host.patience.now_ms() + JOIN_STEP_MS, 0)

    async def stop(self) -> None:
        await self._consumer.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.stop()

    def subscribe(self, topics: Iterable[str] = (), pattern: Any = None, listener: Any = None) -> None:
        """Read topics, as a member of the group if there is one."""
        names = chosen_topics(topics, pattern)
        if not self._has_group:
            self._groupless = set(names or ())
            self._pattern = None if pattern is None else re.compile(pattern)
            return
        operations = self._consumer._operations
        run_blocking(operations.subscribe(names, pattern, adapted_listener(listener)))

    @property
    def _lacks_topics(self) -> bool:
        """Without a group: whether none of the topics is read yet."""
        # Asking the consumer for its assignment would take back what it has handed out.
        is_assigned = self._consumer._operations.state.partitions
        return bool(self._groupless or self._pattern) and not is_assigned

    async def _take_groupless(self) -> None:
        if not self._lacks_topics:
            return
        known = await self._consumer.list_topics()
        if self._pattern is not None:
            self._groupless = {name for name in known if self._pattern.match(name)}
        found = new_partitions(self._groupless, known, set())
        if found:
            await self._consumer.assign(found)

    async def _wait_for_topics(self, timeout_ms: int | None) -> int | None:
        """Without a group: wait for topics that do not exist yet; the milliseconds that are left then."""
        patience = self._consumer._operations.host.patience
        due_at_ms = None if timeout_ms is None else patience.now_ms() + timeout_ms
        while True:
            await self._take_groupless()
            now_ms = patience.now_ms()
            left_ms = None if due_at_ms is None else max(0, due_at_ms - now_ms)
            if not self._lacks_topics or left_ms == 0:
                return left_ms
            step_ms = TOPIC_STEP_MS if left_ms is None else min(TOPIC_STEP_MS, left_ms)
            await self._consumer._poller.poll(now_ms + step_ms, 0)

    def unsubscribe(self) -> None:
        """Leave the group, in the background."""
        self._groupless, self._pattern = set(), None
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
        self._check_open()
        await self._wait_for_topics(None)
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
        self._check_open()
        left_ms = await self._wait_for_topics(timeout_ms)
        if self._lacks_topics:
            return {}
        return await self._consumer.getmany(*partitions, timeout_ms=left_ms or 0, max_records=max_records)

    def _check_open(self) -> None:
        if self._consumer._operations.is_closed:
            raise ConsumerStoppedError("this consumer is stopped")

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord[Any, Any]]:
        """Records, for ever, or until the consumer is stopped."""
        while True:
            try:
                yield await self.getone()
            except IllegalStateError as error:
                if isinstance(error, ConsumerStoppedError) or self._consumer._operations.is_closing:
                    return
                raise

    async def commit(self, offsets: Mapping[TopicPartition, Any] | None = None) -> None:
        wanted = committable(offsets)
        for partition in wanted or ():
            self._consumer._operations.state[partition]  # raises if it is not assigned
        await self._consumer.commit(wanted)

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
        return found_by_time(await self._consumer.offsets_for_times(timestamps))

    async def topics(self) -> set[str]:
        return await self._consumer.topics()

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The partitions of a topic that the client has metadata of."""
        known = self._consumer._operations.engine.core.metadata.cluster.topics.get(topic)
        return set(known.partitions) if known else None
