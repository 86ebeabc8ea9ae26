"""aiokafka's producer on klamm's."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Final, Self

from klamm.aio.producer import Producer
from klamm.client.producer.delivery import Delivery
from klamm.compat.aiokafka.batch import BatchBuilder
from klamm.compat.aiokafka.structs import RecordMetadata
from klamm.compat.bootstrap import wait_for_cluster
from klamm.compat.callers import committable, own_partitioner
from klamm.compat.kafka.serializer import own_serializer
from klamm.compat.python_settings import AIOKAFKA, own_settings
from klamm.compat.settings import ClientKind
from klamm.errors import DeliveryError, DisconnectedError, KlammTimeoutError, NoBrokersError
from klamm.protocol.types import TopicPartition

REQUEST_TIMEOUT_MS: Final = 40_000


class AIOKafkaProducer:
    """aiokafka's producer: `send` gives a future of the loop, `send_and_wait` the record's place."""

    def __init__(self, **configs: Any) -> None:
        made = own_settings(AIOKAFKA, configs, ClientKind.PRODUCER)
        made["batch_size"] = self._max_batch_size = int(made.pop("max_batch_size", 16_384))
        partitioner = made.pop("partitioner", None)
        if partitioner is not None:
            made["partitioner_class"] = own_partitioner(partitioner)
        for name in ("key_serializer", "value_serializer"):
            made[name] = own_serializer(made.get(name), "serialize")
        made.setdefault("request_timeout_ms", REQUEST_TIMEOUT_MS)
        self._start_limit_ms = int(made["request_timeout_ms"])
        self._is_transactional = made.get("transactional_id") is not None
        self._producer = Producer(made)

    async def start(self) -> None:
        """Wait for the cluster, and get the transactional id, if there is one."""
        try:
            await asyncio.to_thread(wait_for_cluster, self._producer._producer, self._start_limit_ms)
        except (NoBrokersError, KlammTimeoutError) as error:
            raise DisconnectedError(f"Unable to bootstrap: {error}") from error
        if self._is_transactional:
            await self._producer.init_transactions()

    async def stop(self) -> None:
        """Deliver what is left, and stop."""
        await self._producer._beside(self._producer._producer.finish)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.stop()

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Any = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Send one record; a future of its place. AssertionError: its topic does not have the partition."""
        if partition is not None:
            topics = self._producer._producer._metadata.cluster.topics
            if topic in topics and partition not in topics[topic].partitions:
                raise AssertionError("Unrecognized partition")
        delivery = await self._producer.send(topic, value, key, headers, partition, timestamp_ms)
        return _future(delivery)

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Any = None,
    ) -> RecordMetadata:
        """Send one record and wait until it is delivered."""
        return await (await self.send(topic, value, key, partition, timestamp_ms, headers))

    def create_batch(self) -> BatchBuilder:
        return BatchBuilder(self._max_batch_size)

    async def send_batch(
        self, batch: BatchBuilder, topic: str, *, partition: int
    ) -> asyncio.Future[RecordMetadata]:
        """Send the records of a batch to one partition; a future of the first one's place."""
        if not batch.records:
            raise ValueError("the batch is empty")
        batch.close()
        sent = [
            await self.send(topic, value, key, partition, timestamp_ms, headers)
            for key, value, timestamp_ms, headers in batch.records
        ]

        async def settled() -> RecordMetadata:
            places = [await future for future in sent]
            return places[0]

        return asyncio.ensure_future(settled())

    async def flush(self) -> None:
        """Wait until all records are delivered or have failed; their futures tell which."""
        with suppress(DeliveryError):
            await self._producer.flush()

    async def partitions_for(self, topic: str) -> set[int]:
        return {partition for _, partition in await self._producer.partitions_for(topic)}

    # --- transactions -----------------------------------------------------------------------------------

    async def begin_transaction(self) -> None:
        await self._producer.begin_transaction()

    async def commit_transaction(self) -> None:
        await self._producer.commit_transaction()

    async def abort_transaction(self) -> None:
        await self._producer.abort_transaction()

    def transaction(self) -> AbstractAsyncContextManager[Producer]:
        """`async with producer.transaction():` commits at the end, and aborts on an exception."""
        return self._producer.transaction()

    async def send_offsets_to_transaction(self, offsets: Mapping[TopicPartition, Any], group_id: str) -> None:
        """Commit offsets of a group with the transaction: numbers, pairs or OffsetAndMetadata."""
        await self._producer.send_offsets_to_transaction(committable(offsets) or {}, group_id)


def _future(delivery: Delivery) -> asyncio.Future[RecordMetadata]:
    """A future of the loop, settled with the record."""
    future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()

    def settle() -> None:
        if future.done():
            return
        metadata, error = delivery.outcome()
        if metadata is None:
            future.set_exception(error or RuntimeError("the record has no outcome"))
            return
        topic, partition, offset, timestamp_ms = metadata
        place = TopicPartition(topic, partition)
        kind = 1 if delivery.has_broker_time else 0
        future.set_result(RecordMetadata(topic, partition, place, offset, timestamp_ms, kind, None))

    if not delivery.call_when_settled(future.get_loop(), settle):
        settle()
    return future
