"""The producer for asyncio: sending is awaited only where it may wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Self, TypeVar, Unpack

from klamm.aio.sending import Sending
from klamm.assignors.base import GroupMetadata
from klamm.client.committed import Committed
from klamm.client.config import with_given
from klamm.client.key_value_types import SentKey, SentValue, Serializing, SettingsOf
from klamm.client.producer.delivery import Delivery, RecordMetadata
from klamm.client.producer.delivery_callbacks import OnDelivery
from klamm.client.producer.failures import attach
from klamm.client.producer.producer import Producer as BlockingProducer
from klamm.client.producer.report import ProducerHealth
from klamm.client.producer.serializing import Headers, HeaderValue
from klamm.client.producer.transactions.handover import OpenTransaction, PreparedTransaction
from klamm.errors import DeliveryError, KlammError
from klamm.protocol.types import TopicPartition

if TYPE_CHECKING:
    from klamm.client.setting_types import ProducerKeywords

CLOSE_TIMEOUT_S: Final = 30.0
P = ParamSpec("P")
T = TypeVar("T")


class Producer(Generic[SentKey, SentValue]):
    """As `klamm.Producer`, with `await` and `async with`.

    `await producer.send(...)` waits while metadata is missing or `buffer.memory` is full, and gives a future;
    awaiting that one too returns the record's partition and offset. `send_and_wait` does both.
    """

    def __init__(
        self,
        config: SettingsOf[SentKey, SentValue] | None = None,
        /,
        *,
        key_serializer: Serializing[SentKey] | None = None,
        value_serializer: Serializing[SentValue] | None = None,
        **settings: Unpack[ProducerKeywords],
    ) -> None:
        given = with_given(settings, key_serializer=key_serializer, value_serializer=value_serializer)
        self._producer: BlockingProducer[SentKey, SentValue] = BlockingProducer(config, **given)
        self._sends: set[asyncio.Task[Delivery]] = set()  # that wait for metadata or for memory

    def __repr__(self) -> str:
        return repr(self._producer).replace("klamm.Producer", "klamm.aio.Producer")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failed = await self._finish(CLOSE_TIMEOUT_S)
        if failed is None:
            return
        if error is None:
            raise failed
        attach(error, failed)

    async def send(
        self,
        topic: str,
        value: SentValue | None = None,
        key: SentKey | None = None,
        headers: Headers | Mapping[str, HeaderValue] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Send one record; its future returns the record's partition and offset, or raises."""
        arguments = (topic, value, key, headers, partition, timestamp_ms, on_delivery)
        if self._producer.would_wait(topic, partition):
            return await self._send_beside(*arguments)
        return self._producer.send(*arguments)

    def _send_beside(self, *arguments: Any) -> asyncio.Task[Delivery]:
        """Send beside the loop: it would have to wait."""
        task = asyncio.ensure_future(asyncio.to_thread(self._producer.send, *arguments))
        self._sends.add(task)
        task.add_done_callback(self._sends.discard)
        return task

    def send_and_wait(
        self,
        topic: str,
        value: SentValue | None = None,
        key: SentKey | None = None,
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
            sending.follow_send(self._send_beside(topic, value, key, headers, partition, timestamp_ms))
            return sending
        try:
            sending.follow(producer.send(topic, value, key, headers, partition, timestamp_ms))
        except Exception as error:  # raised where it is awaited
            sending.set_exception(error)
        return sending

    async def _send_and_wait(self, topic: str, *rest: Any) -> RecordMetadata:
        return await (await self.send(topic, *rest))

    async def _beside(self, call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Call what may wait, beside the loop. In a forked child nothing waits, and no thread is left."""
        if self._producer.is_inherited:
            return call(*arguments, **named)
        return await asyncio.to_thread(call, *arguments, **named)

    async def init_transactions(self, *, keep_prepared: bool = False, timeout: float | None = None) -> None:
        """Get this `transactional.id` for this producer, before its first transaction; fences older ones."""
        await self._beside(self._producer.init_transactions, keep_prepared=keep_prepared, timeout=timeout)

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
            fatal = await self._beside(self._producer.give_up_transaction, error)
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
        await self._beside(self._producer.send_offsets_to_transaction, offsets, group_metadata, timeout)

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Wait for all records of the transaction, then commit it."""
        await self._beside(self._producer.commit_transaction, timeout)

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Drop all records and offsets of the transaction."""
        await self._beside(self._producer.abort_transaction, timeout)

    async def prepare_transaction(self, timeout: float | None = None) -> PreparedTransaction:
        """The first half of a two-phase commit: everything is written, nothing is decided."""
        return await self._beside(self._producer.prepare_transaction, timeout)

    async def complete_transaction(self, prepared: PreparedTransaction, timeout: float | None = None) -> None:
        """Commit the prepared transaction if it is this one; abort it if it is another."""
        await self._beside(self._producer.complete_transaction, prepared, timeout)

    async def hand_over_transaction(self, timeout: float | None = None) -> OpenTransaction:
        """The open transaction as a value that other processes can resume; all records are written."""
        return await self._beside(self._producer.hand_over_transaction, timeout)

    def resume_transaction(self, transaction: OpenTransaction) -> None:
        """Continue a transaction that another process handed over."""
        self._producer.resume_transaction(transaction)

    def health(self) -> ProducerHealth:
        """Whether the cluster can be reached and records are being delivered."""
        return self._producer.health()

    def metrics(self) -> dict[str, float]:
        """Counters since the beginning, and what is buffered."""
        return self._producer.metrics()

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        """The partitions of a topic; waits for its metadata, `max.block.ms` by default."""
        return await self._beside(self._producer.partitions_for, topic, timeout)

    async def purge(self) -> int:
        """Give up all records that are not in flight, with PurgedError; how many."""
        return await self._beside(self._producer.purge)

    def __len__(self) -> int:
        """How many records are not delivered yet."""
        return len(self._producer)

    def __bool__(self) -> bool:
        return True  # also one without records

    async def _all_handed_over(self, timeout: float | None) -> float | None:
        """Wait for calls of `send` that wait themselves; what is left of the time-out."""
        if not self._sends:
            return timeout
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        await asyncio.wait(self._sends, timeout=timeout)
        return None if timeout is None else max(0.0, timeout - (loop.time() - began_s))

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until all records sent before are settled and their callbacks have run.

        Raises DeliveryError for failures not yet read.
        """
        await self._beside(self._producer.flush, await self._all_handed_over(timeout))

    async def start(self) -> None:
        """Nothing is left to do; other clients have such a call."""

    async def _finish(self, timeout: float | None) -> DeliveryError | None:
        return await self._beside(self._producer.finish, await self._all_handed_over(timeout))

    async def close(self, timeout: float | None = CLOSE_TIMEOUT_S) -> None:
        """Deliver what is left, for at most `timeout` seconds, and stop; safe to call twice.

        Raises DeliveryError if records were not delivered and nothing has reported that.
        """
        failed = await self._finish(timeout)
        if failed is not None:
            raise failed

    stop = close
