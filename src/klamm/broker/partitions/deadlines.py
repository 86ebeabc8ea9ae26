"""Time-outs of requests that wait: one timer for all of them."""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Iterator
from math import inf
from typing import Protocol

_log = logging.getLogger(__name__)


class Waiter(Protocol):
    """A request that waits for at most `timeout_ms`."""

    timeout_ms: int

    def expire(self) -> None:
        """The time is over. The waiter is no longer in the deadlines."""
        ...


class Deadlines:
    """Expires waiters on the loop's time. Adding and discarding one costs dictionary operations, no timer.

    Waiters with the same time-out are due in the order of arrival: a queue for each time-out, and
    only the first of each queue is looked at.
    """

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._time = loop.time
        self._queues: dict[int, dict[Waiter, float]] = {}  # by time-out: waiters and when they are due
        self._timer: TimerHandle | None = None
        self._timer_at_s = inf  # no timer

    def __iter__(self) -> Iterator[Waiter]:
        return iter([waiter for queue in self._queues.values() for waiter in queue])

    def add(self, waiter: Waiter) -> None:
        timeout_ms = waiter.timeout_ms
        due_at_s = self._time() + timeout_ms / 1000
        queue = self._queues.get(timeout_ms)
        if queue is None:
            self._queues[timeout_ms] = {waiter: due_at_s}
        else:
            queue[waiter] = due_at_s
        if due_at_s < self._timer_at_s:
            self._arm(due_at_s)

    def discard(self, waiter: Waiter) -> None:
        timeout_ms = waiter.timeout_ms
        queue = self._queues.get(timeout_ms)
        if queue is not None and queue.pop(waiter, None) is not None and not queue:
            # Clients choose time-outs: an empty queue for each that was ever used would be a leak.
            del self._queues[timeout_ms]

    def _arm(self, at_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_s = at_s
        self._timer = self._loop.call_at(at_s, self._expire)

    def _expire(self) -> None:
        """Expire what is due; the timer follows the earliest of the others."""
        # A loop may call back a little early, by the resolution of its clock.
        now_s = max(self._timer_at_s, self._time())
        self._timer, self._timer_at_s = None, inf
        late: list[Waiter] = []
        next_s = []
        for queue in self._queues.values():
            for waiter, due_at_s in queue.items():
                if due_at_s > now_s:
                    next_s.append(due_at_s)
                    break
                late.append(waiter)
        for waiter in late:
            self.discard(waiter)
        if next_s:
            self._arm(min(next_s))
        for waiter in late:
            try:
                waiter.expire()
            except Exception:
                _log.exception("completing an expired request failed")
