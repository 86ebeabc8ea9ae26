"""Clocks: code that needs the time gets a Clock as an argument."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


class Clock(Protocol):
    """A monotonic clock for deadlines (`now_ms`), and the wall clock for records (`timestamp_ms`)."""

    def now_ms(self) -> int:
        """A monotonic instant; only differences are meaningful."""
        ...

    def timestamp_ms(self) -> int:
        """The wall clock, milliseconds since 1970."""
        ...


class SystemClock:
    """The clocks of this machine."""

    now_s = staticmethod(time.monotonic)

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def timestamp_ms(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that moves only when a test moves it."""

    def __init__(self, now_ms: int = 0, timestamp_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._ahead_ms = timestamp_ms - now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def timestamp_ms(self) -> int:
        return self._now_ms + self._ahead_ms

    def advance(self, duration_ms: int) -> None:
        """Move both clocks forward."""
        if duration_ms < 0:
            raise ValueError(f"cannot move the clock backwards: {duration_ms}")
        self._now_ms += duration_ms


# What waits for a clock is made here. A clock that can be moved (klamm.virtual_time) has its own of each.


def patience_of(clock: Clock) -> Clock:
    """The clock for time-outs of calls, which must end even while virtual time stands still."""
    found: Clock = getattr(clock, "patience", clock)
    return found


def instants_of(clock: Clock) -> Callable[[], float]:
    """The instants of a clock in seconds, as exactly as it has them."""
    found: Callable[[], float] | None = getattr(clock, "now_s", None)
    return found if found is not None else lambda: clock.now_ms() / 1000


def selector_on(clock: Clock) -> selectors.BaseSelector:
    """A selector whose time-outs are on a clock."""
    found: selectors.BaseSelector = getattr(clock, "new_selector", selectors.DefaultSelector)()
    return found


def socket_on(clock: Clock, family: int, kind: int) -> socket.socket:
    """A socket between threads that wait for a clock."""
    found: socket.socket = getattr(clock, "new_socket", socket.socket)(family, kind)
    return found


def event_on(clock: Clock) -> threading.Event:
    """An event whose time-outs are on a clock."""
    found: threading.Event = getattr(clock, "new_event", threading.Event)()
    return found


def future_on(clock: Clock) -> Future[Any]:
    """A future whose time-outs are on a clock."""
    found: Future[Any] = getattr(clock, "new_future", Future)()
    return found


def condition_on(clock: Clock, lock: threading.Lock | None = None) -> threading.Condition:
    """A condition whose time-outs are on a clock."""
    make = getattr(clock, "new_condition", threading.Condition)
    found: threading.Condition = make(lock)
    return found


class Cancellable(Protocol):
    """A call that is yet to come."""

    def cancel(self) -> None: ...


def alarm_on(
    clock: Clock, loop: AbstractEventLoop, due_at_ms: int, callback: Callable[[], object]
) -> Cancellable:
    """Call back in an event loop at an instant of a clock."""
    make: Callable[..., Cancellable] | None = getattr(clock, "new_alarm", None)
    if make is not None:
        return make(loop, due_at_ms, callback)
    return loop.call_later(max(0, due_at_ms - clock.now_ms()) / 1000, callback)


# Clocks of brokers in this process that run on virtual time. klamm's clients that connect to one of them run
# on its clock: the code under test need not know that there is one.
_CLOCKS: Final[dict[tuple[str, int], Clock]] = {}


def publish(address: tuple[str, int], clock: Clock) -> None:
    """A broker at this address runs on this clock."""
    _CLOCKS[address] = clock


def withdraw(address: tuple[str, int]) -> None:
    """The broker at this address has stopped."""
    _CLOCKS.pop(address, None)


# The clock of clients that are made now, wherever their broker runs.
_CHOSEN: Final[ContextVar[Clock | None]] = ContextVar("klamm_clients_clock", default=None)


@contextmanager
def clients_on(clock: Clock) -> Iterator[None]:
    """Clients that are made inside run on this clock: for tests, and for looking at a broker from outside."""
    token = _CHOSEN.set(clock)
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def clock_at(addresses: tuple[tuple[str, int], ...]) -> Clock:
    """The clock of clients of these brokers: of the first that runs in this process on virtual time, or the
    system's.
    """
    chosen = _CHOSEN.get()
    if chosen is not None:
        return chosen
    return next((_CLOCKS[each] for each in addresses if each in _CLOCKS), None) or SystemClock()
