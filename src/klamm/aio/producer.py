"""The producer for asyncio: sending is awaited only where it may wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Self

from klamm.aio.sending import Sending
from klamm.client.assignors.base import GroupMetadata
from klamm.client.consumer.offsets.positions import Committed
from klamm.client.producer.delivery import Delivery, RecordMetadata
from klamm.client.producer.delivery_callbacks import OnDelivery
from klamm.client.producer.failures import attach
from klamm.client.producer.producer import Headers, HeaderValue
from klamm.client.producer.producer import Producer as BlockingProducer
from klamm.client.producer.report import Health
from klamm.client.producer.transactions.handover import OpenTransaction, PreparedTransaction
from klamm.errors import KlammError
from klamm.protocol.types import TopicPartition


class Producer:
    """As `klamm.Producer`, with `await` and `async with`.

    `await producer.send(...)` waits while metadata is missing or `buffer.memory` is full, and gives a future;
    awaiting that one too returns the record's partition and offset. `send_and_wait` does both.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Any) -> None:
        self._producer = BlockingProducer(config, **settings)

    def __repr__(self) -> str:
        return repr(self._producer).replace("klamm.Producer", "klamm.aio.Producer")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failed = await asyncio.to_thread(self._producer.finish)
        if failed is None:
            return
        if error is None:
            raise failed
        attach(error, failed)

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers | Mapping[str, HeaderValue] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Send one record; its future returns the record's partition and offset, or raises."""
        arguments = (topic, value, key, headers, partition, timestamp_ms, on_delivery)
        if self._producer.would_wait(topic, partition):
            return await asyncio.to_thread(self._producer.send, *arguments)
        return self._producer.send(*arguments)

    def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers | Mapping[str, HeaderValue] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Coroutine[Any, Any, RecordMetadata]:
        """Send one record and wait until it is delivered; returns its partition and offset.

        Called in a running event loop, the record is sent at once, before the first `await`.
        """
        producer = self._producer
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # asyncio.run(producer.send_and_wait(...))
            return self._send_and_wait(topic, value, key, headers, partition, timestamp_ms)
        sending = Sending(loop=loop)
        if producer.would_wait(topic, partition):
            waiting = self._send_and_wait(topic, value, key, headers, partition, timestamp_ms)
            sending.follow_task(loop.create_task(waiting))
            return sending
        try:
            sending.follow(producer.send(topic, value, key, headers, partition, timestamp_ms))
        except Exception as error:  # raised where it is awaited
            sending.set_exception(error)
        return sending

    async def _send_and_wait(self, topic: str, *rest: Any) -> RecordMetadata:
        return await (await self.send(topic, *rest))

    async def init_transactions(self, *, keep_prepared: bool = False, timeout: float | None = None) -> None:
        """Get this `transactional.id` for this producer, before its first transaction; fences older ones."""
        await asyncio.to_thread(
            self._producer.init_transactions, keep_prepared=keep_prepared, timeout=timeout
        )

    async def begin_transaction(self) -> None:
        """Begin a transaction: what is sent from now on becomes visible together, or not at all."""
        self._producer.begin_transaction()

    begin = begin_transaction

    def transaction(self) -> AbstractAsyncContextManager[Self]:
        """`async with producer.transaction():` commits at the end, and aborts on an exception."""
        return self._transaction()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Self]:
        await self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except BaseException as error:
            fatal = await asyncio.to_thread(self._producer.give_up_transaction, error)
            if fatal is not None and isinstance(error, KlammError) and fatal is not error:
                raise fatal from error
            raise

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | Committed],
        group_metadata: GroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """Commit a consumer's offsets with the transaction; pass `consumer.group_metadata()`."""
        await asyncio.to_thread(self._producer.send_offsets_to_transaction, offsets, group_metadata, timeout)

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Wait for all records of the transaction, then commit it."""
        await asyncio.to_thread(self._producer.commit_transaction, timeout)

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Drop all records and offsets of the transaction."""
        await asyncio.to_thread(self._producer.abort_transaction, timeout)

    async def prepare_transaction(self, timeout: float | None = None) -> PreparedTransaction:
        """The first half of a two-phase commit: everything is written, nothing is decided."""
        return await asyncio.to_thread(self._producer.prepare_transaction, timeout)

    async def complete_transaction(self, prepared: PreparedTransaction, timeout: float | None = None) -> None:
        """Commit the prepared transaction if it is this one; abort it if it is another."""
        await asyncio.to_thread(self._producer.complete_transaction, prepared, timeout)

    async def hand_over_transaction(self, timeout: float | None = None) -> OpenTransaction:
        """The open transaction as a value that other processes can resume; all records are written."""
        return await asyncio.to_thread(self._producer.hand_over_transaction, timeout)

    def resume_transaction(self, transaction: OpenTransaction) -> None:
        """Continue a transaction that another process handed over."""
        self._producer.resume_transaction(transaction)

    def health(self) -> Health:
        """Whether the cluster can be reached and records are being delivered."""
        return self._producer.health()

    def metrics(self) -> dict[str, float]:
        """Counters since the beginning, and what is buffered."""
        return self._producer.metrics()

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        """The partitions of a topic; waits for its metadata, `max.block.ms` by default."""
        return await asyncio.to_thread(self._producer.partitions_for, topic, timeout)

    async def purge(self) -> int:
        """Give up all records that are not in flight, with PurgedError; how many."""
        return await asyncio.to_thread(self._producer.purge)

    def __len__(self) -> int:
        """How many records are not delivered yet."""
        return len(self._producer)

    def __bool__(self) -> bool:
        return True  # also one without records

    async def flush(self, timeout: float | None = None) -> None:
        """Wait for all records sent before; raises DeliveryError for failures not yet read."""
        await asyncio.to_thread(self._producer.flush, timeout)

    async def start(self) -> None:
        """Nothing is left to do; other clients have such a call."""

    async def close(self, timeout: float | None = 30.0) -> None:
        """Deliver what is left, for at most `timeout` seconds, and stop; safe to call twice.

        Raises DeliveryError if records were not delivered and nothing has reported that.
        """
        await asyncio.to_thread(self._producer.close, timeout)

    stop = close
