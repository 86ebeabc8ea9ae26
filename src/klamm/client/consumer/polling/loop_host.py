"""Waiting inside an event loop: the wake-up flag and the claim of the asyncio face."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from weakref import WeakKeyDictionary

from klamm.clock import Clock, alarm_on
from klamm.errors import ConcurrentAccessError, IllegalStateError


class LoopSignal:
    """An event that tasks wait for. Several may wait at once; each counts for itself how often it was set."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._count = 0
        self._heard: WeakKeyDictionary[asyncio.Task[object], int] = WeakKeyDictionary()
        self._waiters: set[asyncio.Future[None]] = set()

    def set(self) -> None:
        self._count += 1
        for waiter in list(self._waiters):
            with contextlib.suppress(RuntimeError):  # its loop is closed: no task waits
                waiter.get_loop().call_soon_threadsafe(_wake, waiter)

    def clear(self) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._heard[task] = self._count

    async def wait(self, due_at_ms: int | None) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters.add(waiter)
        alarm = None
        try:
            # Set between `clear` and here: no task received it.
            if task is not None and self._heard.get(task) != self._count:
                return
            if due_at_ms is not None:
                alarm = alarm_on(self._clock, loop, due_at_ms, partial(_wake, waiter))
            await waiter
        finally:
            self._waiters.discard(waiter)
            if alarm is not None:
                alarm.cancel()


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class TaskClaim:
    """Held while a task is inside; the same task may enter again. Bound to the first loop that uses it."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._owner: asyncio.Task[object] | None = None
        self._depth = 0
        self._waiting: list[asyncio.Future[None]] = []  # tasks that wait until no other is inside

    def check_loop(self) -> None:
        """Raise unless this is the consumer's event loop."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise IllegalStateError("this consumer belongs to another event loop; create one per loop")

    def __enter__(self) -> None:
        self.check_loop()
        task = asyncio.current_task()
        if self._depth and self._owner is not task:
            inside = self._owner.get_name() if self._owner else "another task"
            outside = task.get_name() if task else "this call"
            raise ConcurrentAccessError(
                f"{inside} is reading from this consumer; {outside} must not do so at the same time"
            )
        self._owner = task
        self._depth += 1

    def __exit__(self, *_exception: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None
            while self._waiting:
                _wake(self._waiting.pop())

    @property
    def is_held_by_another(self) -> bool:
        """Whether another task is inside."""
        return self._depth > 0 and self._owner is not asyncio.current_task()

    async def until_free(self) -> None:
        """Wait until no other task is inside."""
        while self.is_held_by_another:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter
