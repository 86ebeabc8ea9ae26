"""Hosts of a consumer's core, and how callers reach it: a thread of its own, or a test."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from klamm.client.consumer.polling.inbox import Signal
from klamm.client.runtime import ClientThread, Core
from klamm.clock import Clock, event_on, patience_of

T = TypeVar("T")


class ConsumerHost(Protocol):
    """The client's thread, seen from outside."""

    clock: Clock
    patience: Clock  # for the time-outs of calls; the same as `clock`, except on virtual time
    core: Core
    signal: Signal

    def submit(self, work: Callable[[], None]) -> None:
        """Run something on the client's thread, soon."""
        ...

    @property
    def failure(self) -> BaseException | None:
        """What ended the thread, if it was not `stop`."""
        ...

    def check(self) -> None:
        """Raise IllegalStateError when the thread has stopped."""
        ...

    def stop(self) -> None:
        """End the thread and close the connections."""
        ...


class ThreadHost:
    """A core on a thread of its own."""

    def __init__(self, thread: ClientThread, signal: Signal) -> None:
        self._thread = thread
        self.clock = thread.clock
        self.patience = patience_of(thread.clock)
        self.core = thread.core
        self.signal = signal
        self.submit = thread.reactor.submit
        self.check = thread.check
        thread.reactor.on_end = signal.set

    @property
    def failure(self) -> BaseException | None:
        return self._thread.failure

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._thread.stop()


class ThreadSignal:
    """An event that a thread waits for. Its coroutines never suspend: `run_blocking` drives them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._event = event_on(clock)
        self.set = self._event.set
        self.clear = self._event.clear

    async def wait(self, due_at_ms: int | None) -> None:
        timeout = None if due_at_ms is None else max(0, due_at_ms - self._clock.now_ms()) / 1000
        self._event.wait(timeout)


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that blocks instead of suspending."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # what the coroutine returned
    coroutine.close()
    raise TypeError("an async callback needs klamm.aio.Consumer; give klamm.Consumer plain functions")
