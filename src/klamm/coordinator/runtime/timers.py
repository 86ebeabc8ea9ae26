"""Deadlines as data: a timer is an object with a due field, and the queue looks at it when it must.

Re-arming writes one field. The heap is touched only when a timer becomes due earlier than the queue will
look at it next, so a hundred thousand members that keep heartbeating cost one look per session timeout each.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TypeAlias

from klamm.coordinator.runtime.fields import Fields


class Timer(Fields):
    """Something that will happen unless it is put off: `signal` enters the machine like a request."""

    __slots__ = ("check_at_ms", "due_at_ms", "failures", "renewed_at_ms", "signal")

    def __init__(self, signal: object = None, due_at_ms: int | None = None) -> None:
        self.signal = signal  # None: the timer itself
        self.due_at_ms = due_at_ms  # None: not armed
        self.renewed_at_ms: int | None = None  # put off since then: by `period_ms` from here
        self.check_at_ms: int | None = None  # when the queue looks next; never after it is due
        self.failures = 0  # how often in a row the decision about it has raised

    @property
    def period_ms(self) -> int:
        """How far a renewal puts it off."""
        raise AssertionError(f"{self.signal} is never renewed")


TimerChange: TypeAlias = tuple[Timer, int | None]  # arm it for this instant, or disarm it with None


def left_ms(timer: Timer, now_ms: int) -> int | None:
    """What is left until it is due; None if it does not run."""
    due_at_ms = timer.due_at_ms
    if due_at_ms is not None and timer.renewed_at_ms is not None:
        due_at_ms = timer.renewed_at_ms + timer.period_ms
    return None if due_at_ms is None else max(0, due_at_ms - now_ms)


class TimerQueue:
    """Which timers are due; all instants on one monotonic clock."""

    __slots__ = ("_heap", "_pushed")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._pushed = 0  # breaks ties, so that what was armed first fires first

    def change(self, timer: Timer, due_at_ms: int | None) -> bool:
        """Arm or disarm; True when the next check is earlier than before."""
        timer.due_at_ms = due_at_ms
        timer.renewed_at_ms = None
        if due_at_ms is None:
            return False
        check_at_ms = timer.check_at_ms
        if check_at_ms is not None and check_at_ms <= due_at_ms:
            return False
        heap = self._heap
        is_earliest = not heap or due_at_ms < heap[0][0]
        self._push(timer, due_at_ms)
        return is_earliest

    def renew(self, timer: Timer, now_ms: int) -> bool:
        """Restart the timer's period: one field, if it runs. As `change` otherwise."""
        if timer.due_at_ms is None:
            return self.change(timer, now_ms + timer.period_ms)
        timer.renewed_at_ms = now_ms
        return False

    def next_check_ms(self) -> int | None:
        """Nothing is due before this instant; None when nothing is armed.

        Timers that were disarmed are dropped first. The end of every transaction has one, for a few
        milliseconds: without this each of them would cause a look at all shards.
        """
        heap = self._heap
        while heap:
            check_at_ms, _, timer = heap[0]
            if timer.check_at_ms == check_at_ms:
                if timer.due_at_ms is not None:
                    return check_at_ms
                timer.check_at_ms = None
            heappop(heap)
        return None

    def pop_due(self, now_ms: int) -> Timer | None:
        """Take the next timer that is due, disarmed; None when there is none."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            check_at_ms, _, timer = heappop(heap)
            if timer.check_at_ms != check_at_ms:
                continue  # armed earlier meanwhile: it has another entry
            timer.check_at_ms = None
            due_at_ms = timer.due_at_ms
            if due_at_ms is None:
                continue
            if timer.renewed_at_ms is not None:
                due_at_ms = timer.due_at_ms = timer.renewed_at_ms + timer.period_ms
                timer.renewed_at_ms = None
            if due_at_ms > now_ms:
                self._push(timer, due_at_ms)
                continue
            timer.due_at_ms = None
            return timer
        return None

    def _push(self, timer: Timer, due_at_ms: int) -> None:
        timer.check_at_ms = due_at_ms
        self._pushed += 1
        heappush(self._heap, (due_at_ms, self._pushed, timer))
