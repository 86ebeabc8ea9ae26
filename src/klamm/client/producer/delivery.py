"""What becomes of a record: a future that shares its batch's fate."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from klamm.client.callables import name_of
from klamm.errors import KlammTimeoutError
from klamm.protocol.types import TopicPartition
from klamm.records.core import Place

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from asyncio import Future as LoopFuture

    from klamm.client.producer.batch import Batch

log = logging.getLogger(__name__)

_STATE_OF_A_FUTURE: Final = frozenset(
    {"_condition", "_done_callbacks", "_exception", "_result", "_state", "_waiters"}
)


class RecordMetadata(NamedTuple):
    """Partition and offset of a delivered record. Offset -1: unknown (acks=0, or a duplicate)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def timestamp(self) -> int:
        """As `timestamp_ms`, under the name other clients use."""
        return self.timestamp_ms


class Delivery(Place, Future[RecordMetadata]):
    """The future of one record. Looking at it counts as having seen its failure.

    It shares its batch's outcome and keeps no state of its own: a lock and two lists for each record would
    cost more than the record. Code that looks inside a future, as `concurrent.futures.wait` does, makes it
    have that state then.
    """

    __slots__ = ()
    _batch: Batch

    def __getattr__(self, name: str) -> Any:
        if name not in _STATE_OF_A_FUTURE:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        Future.__init__(self)
        self._batch.examined.add(self._index)
        self._batch.when_settled(self._index, self._settle_base)
        return self.__dict__[name]

    def _settle_base(self) -> None:
        metadata, error = self.outcome()
        if error is not None:
            self.set_exception(error)
        elif metadata is not None:
            self.set_result(metadata)

    def cancel(self) -> bool:
        """False: what was handed over is sent; `purge()` of the producer removes what waits."""
        return False

    def cancelled(self) -> bool:
        return False

    def running(self) -> bool:
        return not self.done()

    def outcome(self) -> tuple[RecordMetadata | None, Exception | None]:
        """Where a settled record went, or why it did not; does not count as having looked at it."""
        error = self._error()
        return (None, error) if error is not None else (self._metadata(), None)

    def follow(self, callback: Callable[[], None]) -> None:
        """As `when_settled`, by one who reports the record's failure in place of this future."""
        self._batch.examined.add(self._index)
        self.when_settled(callback)

    def when_settled(self, callback: Callable[[], None]) -> None:
        """Call back when the record is settled; does not count as having looked at it."""
        self._batch.when_settled(self._index, callback)

    @property
    def batch(self) -> Batch:
        """What carries the record."""
        return self._batch

    @property
    def partition(self) -> TopicPartition:
        """Where the record goes; partition -1 while its topic is not known."""
        return self._batch.partition

    @property
    def has_broker_time(self) -> bool:
        """Whether the topic stamps records with the broker's clock; known once the record is delivered."""
        return self._batch.log_append_time_ms >= 0

    def done(self) -> bool:
        return self._batch.is_settled

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """The record's partition and offset; raises the delivery error, or KlammTimeoutError."""
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

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        """Call back on the producer's thread, in send order per partition; at once if it is settled."""
        self._batch.examined.add(self._index)
        self._batch.when_settled(self._index, partial(callback, self))

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """As `result`, the name in kafka-python."""
        return self.result(timeout)

    @property
    def is_done(self) -> bool:
        """As `done`, the name in kafka-python."""
        return self.done()

    @property
    def value(self) -> RecordMetadata | None:
        """Where the record went, the name in kafka-python; None while that is open, and if it failed."""
        return self.outcome()[0] if self.done() else None

    def succeeded(self) -> bool:
        """Whether the record is delivered; False while that is open."""
        return self.done() and self.exception() is None

    def failed(self) -> bool:
        """Whether the record failed; False while that is open."""
        return self.done() and self.exception() is not None

    def add_callback(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Delivery:
        """Call `function(..., metadata)` once the record is delivered; returns this future."""

        @wraps(function)
        def call(delivery: Delivery) -> None:
            if delivery._error() is None:
                function(*args, delivery._metadata(), **kwargs)

        self.add_done_callback(call)
        return self

    def add_errback(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Delivery:
        """Call `function(..., error)` if the record fails; returns this future."""

        @wraps(function)
        def call(delivery: Delivery) -> None:
            error = delivery._error()
            if error is not None:
                function(*args, error, **kwargs)

        self.add_done_callback(call)
        return self

    def add_both(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Delivery:
        """Call `function(..., metadata)` or `function(..., error)`; returns this future."""
        return self.add_callback(function, *args, **kwargs).add_errback(function, *args, **kwargs)

    def __repr__(self) -> str:
        partition = self._batch.partition
        if not self.done():
            return f"<Delivery to {partition}: pending>"
        error = self._error()
        return f"<Delivery to {partition}: {error!r}>" if error else f"<Delivery: {self._metadata()}>"

    def _error(self) -> Exception | None:
        return self._batch.error_of(self._index)

    def _metadata(self) -> RecordMetadata:
        return self._batch.metadata_of(self._index)

    def call_when_settled(self, loop: AbstractEventLoop, callback: Callable[[], object]) -> bool:
        """Call back in a loop, whose thread this is, at the end; False when that is past."""
        self._batch.examined.add(self._index)
        return self._batch.call_when_settled(loop, callback)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        batch, index = self._batch, self._index
        batch.examined.add(index)
        if not batch.is_settled:
            # Imported here: programs that never await do not pay for asyncio.
            import asyncio  # noqa: PLC0415

            loop = asyncio.get_running_loop()
            waiter: asyncio.Future[None] = loop.create_future()
            if batch.call_when_settled(loop, partial(_resolve, waiter)):
                yield from waiter
        error = batch.error_of(index)
        if error is not None:
            raise error
        return batch.metadata_of(index)


class Settlement:
    """The end of a batch, for its futures: one event for all threads, one call into each event loop.

    It has two steps: settled, the outcome is known; reported, the callbacks have run. `result()` waits for
    the first, `flush()` for the second.
    """

    __slots__ = (
        "_callbacks",
        "_event",
        "_in_loops",
        "_lock",
        "_report",
        "is_reported",
        "is_settled",
        "new_event",
    )

    def __init__(self) -> None:
        self.is_settled = False
        self.is_reported = False
        self.new_event: Callable[[], threading.Event] = threading.Event
        self._lock = threading.Lock()
        self._event: threading.Event | None = None
        self._report: threading.Event | None = None  # of threads that wait for the callbacks
        self._callbacks: list[tuple[int, Callable[[], object]]] = []
        self._in_loops: dict[AbstractEventLoop, list[Callable[[], object]]] = {}

    def wait(self, timeout: float | None) -> bool:
        with self._lock:
            if self.is_settled or timeout == 0:
                return self.is_settled
            if self._event is None:
                self._event = self.new_event()
            event = self._event
        return event.wait(timeout)

    def wait_reported(self, timeout: float | None) -> bool:
        with self._lock:
            if self.is_reported or timeout == 0:
                return self.is_reported
            if self._report is None:
                self._report = self.new_event()
            event = self._report
        return event.wait(timeout)

    def when_settled(self, index: int, callback: Callable[[], object]) -> None:
        with self._lock:
            if not self.is_settled:
                self._callbacks.append((index, callback))
                return
        call(callback)

    def call_when_settled(self, loop: AbstractEventLoop, callback: Callable[[], object]) -> bool:
        """Call back in a loop, whose thread this is, at the end; False when that is past."""
        waiting = self._in_loops.get(loop)
        if waiting is None:
            with self._lock:
                waiting = self._in_loops.setdefault(loop, [])
        waiting.append(callback)
        # Without the lock: added first, checked then. `settle` does it the other way round, so none is
        # forgotten; one that is added meanwhile may be called although the answer is False.
        return not self.is_settled

    def settle(self) -> list[Callable[[], object]]:
        """End it; the callbacks to run, in the order of the records, before `reported` is called."""
        with self._lock:
            self.is_settled = True
            callbacks, self._callbacks = self._callbacks, []
            in_loops, self._in_loops = self._in_loops, {}
            if self._event is not None:
                self._event.set()
        ordered = [callback for _, callback in sorted(callbacks, key=lambda item: item[0])]
        return ordered + [partial(_call_in, loop, waiting) for loop, waiting in in_loops.items()]

    def reported(self) -> None:
        """The callbacks have run."""
        with self._lock:
            self.is_reported = True
            self.new_event = threading.Event  # a future that is kept keeps nothing else of the producer
            if self._report is not None:
                self._report.set()


def call(callback: Callable[[], object]) -> None:
    """Run a callback of the program. What it raises, SystemExit too, is logged and ends nothing else."""
    try:
        callback()
    except BaseException:
        log.exception("the delivery callback %s raised", name_of(callback))


def _call_in(loop: AbstractEventLoop, callbacks: list[Callable[[], object]]) -> None:
    # Each call into a loop is a system call: one for a thousand records is plenty.
    with suppress(RuntimeError):  # the loop is closed: no task waits
        loop.call_soon_threadsafe(_call_all, callbacks)


def _call_all(callbacks: list[Callable[[], object]]) -> None:
    for callback in callbacks:
        callback()


def _resolve(waiter: LoopFuture[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def describe(partition: TopicPartition, count: int) -> str:
    """A batch in an error message."""
    place = partition if partition.partition >= 0 else partition.topic
    return f"{count} record{'s' if count != 1 else ''} for {place}"
