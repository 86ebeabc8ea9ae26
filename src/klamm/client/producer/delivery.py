"""What becomes of a record: a future that shares its batch's fate."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from klamm.errors import KlammTimeoutError
from klamm.protocol.types import TopicPartition

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future

    from klamm.client.producer.batch import Batch


class RecordMetadata(NamedTuple):
    """Where a record went. Offset -1: the broker was not asked (acks=0) or no longer knows."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class Delivery:
    """The future of one record. Looking at it counts as having seen its failure."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        return self._batch.is_settled

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record went; raises what kept it from there, or KlammTimeoutError."""
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._metadata()

    def exception(self, timeout: float | None = None) -> Exception | None:
        """What kept the record from being delivered; None if it was."""
        if not self._batch.wait(timeout):
            raise KlammTimeoutError(f"not delivered within {timeout} s; it may still be")
        self._batch.examined.add(self._index)
        return self._error()

    def add_done_callback(self, callback: Callable[[Delivery], None]) -> None:
        """Call back on the producer's thread, in send order per partition; at once if it is settled."""
        self._batch.examined.add(self._index)
        self._batch.when_settled(self._index, partial(callback, self))

    def _error(self) -> Exception | None:
        return self._batch.error_of(self._index)

    def _metadata(self) -> RecordMetadata:
        return self._batch.metadata_of(self._index)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        self._batch.examined.add(self._index)
        if not self._batch.is_settled:
            # Imported here: programs that never await do not pay for asyncio.
            import asyncio  # noqa: PLC0415

            loop = asyncio.get_running_loop()
            waiter: asyncio.Future[None] = loop.create_future()
            if self._batch.wake_when_settled(loop, waiter):
                yield from waiter
        error = self._error()
        if error is not None:
            raise error
        return self._metadata()


class Settlement:
    """The end of a batch, for its futures: one event for all threads, one call into each event loop."""

    __slots__ = ("_callbacks", "_event", "_lock", "_waiters", "is_settled")

    def __init__(self) -> None:
        self.is_settled = False
        self._lock = threading.Lock()
        self._event: threading.Event | None = None
        self._callbacks: list[tuple[int, Callable[[], None]]] = []
        self._waiters: dict[AbstractEventLoop, list[Future[None]]] = {}

    def wait(self, timeout: float | None) -> bool:
        with self._lock:
            if self.is_settled:
                return True
            if self._event is None:
                self._event = threading.Event()
            event = self._event
        return event.wait(timeout)

    def when_settled(self, index: int, callback: Callable[[], None]) -> None:
        with self._lock:
            if not self.is_settled:
                self._callbacks.append((index, callback))
                return
        callback()

    def wake_when_settled(self, loop: AbstractEventLoop, waiter: Future[None]) -> bool:
        """Resolve a waiter of a loop at the end; False when that is past."""
        with self._lock:
            if not self.is_settled:
                self._waiters.setdefault(loop, []).append(waiter)
            return not self.is_settled

    def settle(self) -> list[Callable[[], None]]:
        """End it; the callbacks to run, in the order of the records."""
        with self._lock:
            self.is_settled = True
            callbacks, self._callbacks = self._callbacks, []
            waiters, self._waiters = self._waiters, {}
            if self._event is not None:
                self._event.set()
        ordered = [callback for _, callback in sorted(callbacks, key=lambda item: item[0])]
        return ordered + [partial(_wake, loop, waiting) for loop, waiting in waiters.items()]


def _wake(loop: AbstractEventLoop, waiters: list[Future[None]]) -> None:
    # Each call into a loop is a system call: one for a thousand records is plenty.
    with suppress(RuntimeError):  # the loop is closed: nobody waits there any more
        loop.call_soon_threadsafe(_resolve, waiters)


def _resolve(waiters: list[Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)


def describe(partition: TopicPartition, count: int) -> str:
    """A batch in an error message."""
    return f"{count} record{'s' if count != 1 else ''} for {partition}"
