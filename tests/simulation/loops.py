"""Several processes on one clock: each has an event loop of its own, the agenda says whose turn it is."""

from __future__ import annotations

import asyncio
import math
import warnings
from collections.abc import Callable
from contextvars import Context
from typing import Any, Final, TypeVarTuple

from klamm.clock import ManualClock
from klamm.testing.virtual_loop import Leap, VirtualLoop

Arguments = TypeVarTuple("Arguments")

_LAST_TURNS: Final = 10  # of a dead process's tasks, while they are cancelled


class _Pause(Leap):
    """In a selector's place: when nothing is left to do at this instant, the loop gives its turn away."""

    def __init__(self, loop: ProcessLoop) -> None:
        super().__init__(loop.clock)
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        self._loop.turned(timeout)
        return []


class ProcessLoop(VirtualLoop):
    """The event loop of one process. It never moves the clock, it only says what it waits for."""

    def __init__(self, clock: ManualClock, on_turn: Callable[[], None] | None = None) -> None:
        super().__init__(clock)
        self._selector = _Pause(self)
        self._on_turn = on_turn
        self._has_news = True  # something was asked of it since its last turn
        self._did_something = False
        self.next_due_ms: int | None = None  # as of the last turn

    def call_soon(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        self._has_news = True
        return super().call_soon(callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        self._has_news = True
        return super().call_at(when, callback, *args, context=context)

    def run_until_idle(self) -> bool:
        """Do all there is to do at this instant; whether there was anything."""
        due_ms = self.next_due_ms
        if not self._has_news and (due_ms is None or due_ms > self.clock.now_ms()):
            return False
        self._did_something = False
        self.run_forever()
        return self._did_something

    def turned(self, timeout: float | None) -> None:
        """One round of callbacks is over; the next timer is due in so many seconds."""
        if self._on_turn is not None:
            self._on_turn()
        if timeout is not None and timeout <= 0:
            self._did_something = True
            return
        # Seconds in a float carry a little dust: it must not become a millisecond.
        wait_ms = None if timeout is None else max(1, math.ceil(timeout * 1000 - 0.001))
        self.next_due_ms = None if wait_ms is None else self.clock.now_ms() + wait_ms
        self._has_news = False
        self.stop()


def end(loop: ProcessLoop) -> None:
    """The process is gone: whatever it was doing, it stops."""
    with warnings.catch_warnings():
        # What a task had not begun when its process died is never awaited.
        warnings.simplefilter("ignore", RuntimeWarning)
        _cancel_all(loop)
        loop.close()


def _cancel_all(loop: ProcessLoop) -> None:
    for _ in range(_LAST_TURNS):
        # In the order they were made: a set has none that two runs would share.
        for task in sorted(asyncio.all_tasks(loop), key=lambda each: int(each.get_name().rpartition("-")[2])):
            task.cancel()
        loop.run_until_idle()


class Agenda:
    """Whose turn it is, and when the clock moves: the one place where time passes."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self._loops: list[ProcessLoop] = []

    def add(self, loop: ProcessLoop) -> None:
        self._loops.append(loop)

    def remove(self, loop: ProcessLoop) -> None:
        self._loops.remove(loop)

    def run(self, until_ms: int, check: Callable[[], None]) -> None:
        """Let everything happen until an instant; `check` may stop it all by raising."""
        clock = self.clock
        while True:
            is_busy = False
            for loop in tuple(self._loops):
                if loop in self._loops and loop.run_until_idle():
                    is_busy = True
                check()
            if is_busy:
                continue
            due_ms = min(
                (loop.next_due_ms for loop in self._loops if loop.next_due_ms is not None), default=until_ms
            )
            if due_ms > until_ms or clock.now_ms() >= until_ms:
                clock.advance(max(0, until_ms - clock.now_ms()))
                return
            clock.advance(max(0, due_ms - clock.now_ms()))
