"""One timer for all who wait and hardly ever wait in vain."""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop, TimerHandle
from typing import Protocol

from klamm.clock import Clock

_log = logging.getLogger(__name__)


class Waiter(Protocol):
    """Somebody with patience until an instant."""

    due_at_ms: int

    def expire(self) -> None:
        """It is late. The deadlines have forgotten this waiter already."""
        ...


class Deadlines:
    """Keeps those who wait; coming and going costs a set operation each, not a timer."""

    def __init__(self, loop: AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._waiting: dict[Waiter, None] = {}
        self._timer: TimerHandle | None = None
        self._timer_at_ms = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiter: Waiter) -> None:
        self._waiting[waiter] = None
        if self._timer is None or waiter.due_at_ms < self._timer_at_ms:
            self._arm(waiter.due_at_ms)

    def discard(self, waiter: Waiter) -> None:
        self._waiting.pop(waiter, None)

    def _arm(self, at_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = at_ms
        self._timer = self._loop.call_later(max(0, at_ms - self._clock.now_ms()) / 1000, self._look)

    def _look(self) -> None:
        """Send away who is late; the timer follows the earliest of the others."""
        self._timer = None
        now_ms = self._clock.now_ms()
        late = [waiter for waiter in self._waiting if waiter.due_at_ms <= now_ms]
        for waiter in late:
            del self._waiting[waiter]
        if self._waiting:
            self._arm(min(waiter.due_at_ms for waiter in self._waiting))
        for waiter in late:
            try:
                waiter.expire()
            except Exception:
                _log.exception("completing an expired request failed")
