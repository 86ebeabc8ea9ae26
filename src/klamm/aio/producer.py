"""The producer for asyncio: sending is awaited only where it may wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from klamm.client.producer.delivery import Delivery, RecordMetadata
from klamm.client.producer.producer import Headers
from klamm.client.producer.producer import Producer as BlockingProducer


class Producer:
    """As `klamm.Producer`, with `await` and `async with`.

    `await producer.send(...)` waits while metadata is missing or `buffer.memory` is full, and gives a future;
    awaiting that one too says where the record went. `send_and_wait` does both.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Any) -> None:
        self._producer = BlockingProducer(config, **settings)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers | Mapping[str, bytes | None] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[Delivery], None] | None = None,
    ) -> Delivery:
        """Hand over one record; its future says where it went, or why it did not."""
        arguments = (topic, value, key, headers, partition, timestamp_ms, on_delivery)
        if self._producer.would_wait(topic, partition):
            return await asyncio.to_thread(self._producer.send, *arguments)
        return self._producer.send(*arguments)

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers | Mapping[str, bytes | None] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send one record and wait until it is delivered; where it went."""
        return await (await self.send(topic, value, key, headers, partition, timestamp_ms))

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until everything sent before is settled; raises DeliveryError for what nobody looked at."""
        await asyncio.to_thread(self._producer.flush, timeout)

    async def start(self) -> None:
        """Nothing is left to do; other clients have such a call."""

    async def close(self, timeout: float | None = 30.0) -> None:
        """Deliver what is left, for at most `timeout` seconds, and stop; safe to call twice."""
        await asyncio.to_thread(self._producer.close, timeout)

    stop = close
