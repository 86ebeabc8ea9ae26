"""What calls wait with on a virtual clock: events, futures, conditions, alarms in an event loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    import asyncio

    from klamm.virtual_time.clock import VirtualClock

T = TypeVar("T")

_S_NS: Final = 1_000_000_000


class WaitingThread:
    """A thread that waits for an event, or was woken and may be about to do something."""

    __slots__ = ("condition", "due_ns", "ident", "woken_s")

    def __init__(self, clock: VirtualClock, due_ns: int | None) -> None:
        self.ident = threading.get_ident()
        self.condition = threading.Condition(clock.lock)
        self.due_ns = due_ns
        self.woken_s = 0.0  # real time; 0 while it waits

    def wake(self) -> None:
        """It has something to do. The lock is held."""
        self.due_ns = None
        self.woken_s = self.woken_s or time.monotonic()
        self.condition.notify_all()


class VirtualEvent:
    """As threading.Event. A time-out ends on the clock, or on real time where the clock is slower."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._is_set = False
        self._calls: list[WaitingThread] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        with self._clock.lock:
            self._is_set = True
            for call in self._calls:
                self._clock.has_ended(call)
                call.wake()

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        clock = self._clock
        with clock.lock:
            if self._is_set:
                return True
            limit_ns = None if timeout is None else round(timeout * _S_NS)
            give_up_ns = None if limit_ns is None else clock.patience_ns() + limit_ns
            call = WaitingThread(clock, None if limit_ns is None else clock.now_ns() + limit_ns)
            self._calls.append(call)
            try:
                clock.call_waits(call)
                while not self._is_set and (left_s := clock.patience_left_s(give_up_ns)) != 0:
                    call.condition.wait(left_s)
            finally:
                self._calls.remove(call)
                clock.call_returns(call)
            return self._is_set


class VirtualFuture(Future[T]):
    """A future whose time-outs are on a virtual clock."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._settled = clock.new_event()
        self.add_done_callback(lambda _future: self._settled.set())

    def result(self, timeout: float | None = None) -> T:
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        if not self.done() and not self._settled.wait(timeout):
            raise TimeoutError


class VirtualCondition:
    """A condition whose time-outs are on a virtual clock. It wakes all that wait, never one."""

    def __init__(self, clock: VirtualClock, lock: threading.Lock) -> None:
        self._clock = clock
        self._lock = lock
        self._waiting: set[VirtualEvent] = set()

    def __enter__(self) -> bool:
        return self._lock.__enter__()

    def __exit__(self, *exception: Any) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        event = self._clock.new_event()
        self._waiting.add(event)
        self._lock.release()
        try:
            return event.wait(timeout)
        finally:
            self._lock.acquire()
            self._waiting.discard(event)

    def notify_all(self) -> None:
        for event in self._waiting:
            event.set()

    def notify(self, _count: int = 1) -> None:
        self.notify_all()


class Alarm:
    """A callback in an event loop at an instant of virtual time."""

    def __init__(
        self,
        clock: VirtualClock,
        loop: asyncio.AbstractEventLoop,
        due_ns: int,
        callback: Callable[[], object],
    ) -> None:
        self._clock = clock
        self._loop = loop
        self._callback = callback
        self.due_ns = due_ns
        left_s = clock.patience_left_s(clock.patience_ns() + max(0, due_ns - clock.now_ns()))
        self._timer = loop.call_later(left_s or 0, callback)

    def fire(self) -> None:
        """Call back soon; from any thread."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._callback)

    def cancel(self) -> None:
        self._timer.cancel()
        with self._clock.lock:
            self._clock.alarms.pop(self, None)
