"""Coroutines on the client's thread, without an event loop: requests and pauses read as a plain sequence.

A coroutine awaits a `Promise`; resolving the promise resumes the coroutine at once. Time is what
is passed to `tick`, so a test can move the clock.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Coroutine, Generator
from itertools import count
from typing import Any, Generic, TypeVar

from klamm.errors import KlammError, KlammTimeoutError
from klamm.net.network import Network, Node
from klamm.net.wire import Call
from klamm.protocol.api import ApiKey

T = TypeVar("T")


class Promise(Generic[T]):
    """A future value; settled once, later settlements are ignored."""

    __slots__ = ("_callback", "_error", "_others", "_value", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._callback: Callable[[Promise[T]], None] | None = None  # the first, and mostly the only one
        self._others: list[Callable[[Promise[T]], None]] | None = None

    def resolve(self, value: T) -> None:
        if not self.is_done:
            self.is_done = True
            self._value = value
            first = self._callback
            if first is not None:
                if self._others is None:
                    self._callback = None
                    first(self)
                else:
                    self._call_back(first)

    def finish(self, value: Any, error: BaseException | None) -> None:
        """Settle with what a call ended with."""
        if error is None:
            self.resolve(value)
        else:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        if not self.is_done:
            self.is_done = True
            self._error = error
            if self._callback is not None:
                self._call_back(self._callback)

    def _call_back(self, first: Callable[[Promise[T]], None]) -> None:
        others = self._others
        self._callback = self._others = None
        first(self)
        if others is not None:
            for callback in others:
                callback(self)

    def when_done(self, callback: Callable[[Promise[T]], None]) -> None:
        """Call back when settled, at once if it is."""
        if self.is_done:
            callback(self)
        elif self._callback is None:
            self._callback = callback
        elif self._others is None:
            self._others = [callback]
        else:
            self._others.append(callback)

    def result(self) -> T:
        """The value, or the error raised; only of a settled promise."""
        assert self.is_done
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # None only when T allows it

    @property
    def error(self) -> BaseException | None:
        return self._error

    def __await__(self) -> Generator[Promise[Any], None, T]:
        if not self.is_done:
            yield self
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # as above


class _Task(Generic[T]):
    """A coroutine that runs. Not a closure: one that names itself is a reference cycle."""

    __slots__ = ("_coroutine", "_outcome")

    def __init__(self, coroutine: Coroutine[Promise[Any], None, T], outcome: Promise[T]) -> None:
        self._coroutine = coroutine
        self._outcome = outcome

    def step(self, _settled: Promise[Any] | None = None) -> None:
        try:
            awaited = self._coroutine.send(None)
        except StopIteration as stop:
            self._outcome.resolve(stop.value)
        except BaseException as error:
            self._outcome.fail(error)
            if not isinstance(error, Exception):
                raise
        else:
            awaited.when_done(self.step)


class Tasks:
    """Runs coroutines and keeps their alarms; a component of the client's core."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._alarms: list[tuple[int, int, Promise[None]]] = []
        self._cancelled = 0  # cancelled alarms in the heap
        self._order = count()

    @property
    def now_ms(self) -> int:
        return self._network.now_ms

    def spawn(self, coroutine: Coroutine[Promise[Any], None, T]) -> Promise[T]:
        """Run a coroutine up to its first pause, the rest as its promises settle."""
        outcome: Promise[T] = Promise()
        _Task(coroutine, outcome).step()
        return outcome

    def sleep(self, duration_ms: int) -> Promise[None]:
        """Settled after a while."""
        promise: Promise[None] = Promise()
        due_at_ms = self.now_ms + max(0, duration_ms)
        heapq.heappush(self._alarms, (due_at_ms, next(self._order), promise))
        return promise

    @property
    def alarm_count(self) -> int:
        """How many alarms are kept."""
        return len(self._alarms)

    def _cancel(self, alarm: Promise[None]) -> None:
        """Cancel an alarm. It leaves the heap as its first entry, or when most entries are cancelled."""
        if alarm.is_done:
            return
        alarm.is_done = True
        self._cancelled += 1
        if self._cancelled * 2 > len(self._alarms):
            self._alarms = [item for item in self._alarms if not item[2].is_done]
            heapq.heapify(self._alarms)
            self._cancelled = 0

    def within(self, promise: Promise[T], timeout_ms: int, what: str) -> Promise[T]:
        """The same promise, but failed with KlammTimeoutError after the time-out."""
        if promise.is_done:
            return promise
        bounded: Promise[T] = Promise()
        alarm = self.sleep(timeout_ms)

        def settled(inner: Promise[T]) -> None:
            self._cancel(alarm)
            if inner.error is not None:
                bounded.fail(inner.error)
            else:
                bounded.resolve(inner.result())

        alarm.when_done(
            lambda _alarm: bounded.fail(KlammTimeoutError(f"{what} timed out after {timeout_ms} ms"))
        )
        promise.when_done(settled)
        return bounded

    def request(
        self,
        node: Node,
        api_key: ApiKey,
        message: Any,
        *,
        timeout_ms: int | None = None,
        max_version: int = 32767,
    ) -> Promise[Any]:
        """One request; its response, or the KlammError that ended it."""
        promise: Promise[Any] = Promise()
        wait_ms = self._network.config.request_timeout_ms if timeout_ms is None else timeout_ms
        self._network.call(node, Call(api_key, message, promise.finish, wait_ms, max_version))
        return promise

    def tick(self, now_ms: int) -> int | None:
        """Settle the alarms that are due; the next one."""
        while self._alarms and (self._alarms[0][2].is_done or self._alarms[0][0] <= now_ms):
            _, _, promise = heapq.heappop(self._alarms)
            if promise.is_done:
                self._cancelled -= 1
            else:
                self._network.stir()
                promise.resolve(None)
        return self._alarms[0][0] if self._alarms else None


async def gather(promises: list[Promise[T]]) -> list[T | KlammError]:
    """All of them, each as its value or its error."""
    results: list[T | KlammError] = []
    for promise in promises:
        try:
            results.append(await promise)
        except KlammError as error:
            results.append(error)
    return results
