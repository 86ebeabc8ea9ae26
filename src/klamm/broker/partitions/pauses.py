"""When the next round of a store begins whose rounds are slow.

Clients that are answered together come back together. If the next round begins at once, it has only those
that were not in the last one: they take turns, and each round has half of them. A pause, until those are back
that were answered, gives one round with all. That pays if they are back sooner than a round takes; otherwise
the broker is busy with them during the next round, which is better than to wait.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from math import inf
from typing import Final

NEVER: Final = -1
# Weight of the last round in the average: flushes of a disk differ by a factor of two from one to the next.
WEIGHT: Final = 0.25
# Some of the clients may be late, or gone: no longer than this many times what is expected.
PATIENCE: Final = 2.0


class Pauses:
    """Measures rounds and how soon clients come back; waits where that pays."""

    __slots__ = (
        "_answered",
        "_began_at_s",
        "_ended_at_s",
        "_in_round",
        "_loop",
        "_now_s",
        "_over",
        "_return_s",
        "_round_s",
        "_timer",
        "all_back_at",
        "is_on",
    )

    def __init__(self, loop: AbstractEventLoop, now_s: Callable[[], float], over: Callable[[], None]) -> None:
        """`over` is called when a pause ends."""
        self._loop = loop
        self._now_s = now_s
        self._over = over
        self._timer: TimerHandle | None = None
        self._round_s = 0.0  # how long a round takes, on average
        self._return_s = inf  # after how long an answered append is followed by another, each
        self._in_round = 0  # appends
        self._answered = 0  # appends in the last round
        self._began_at_s = 0.0
        self._ended_at_s = 0.0
        self.all_back_at = NEVER  # so many appends since a round began: one for each that was answered
        self.is_on = False

    def count_anew(self, appends: int) -> None:
        """A round may begin, with so many appends: all that are not flushed."""
        self._in_round = appends
        if self.all_back_at != NEVER:
            self.all_back_at -= appends

    def round_begins(self) -> None:
        self._began_at_s = self._now_s()

    def round_ends(self, waiting: int) -> None:
        """While so many appends wait for the next one. Begins a pause if that pays."""
        now_s = self._now_s()
        self._round_s = _average(self._round_s, now_s - self._began_at_s)
        if self.all_back_at != NEVER:
            self._are_back(self._answered - (self.all_back_at - waiting), now_s)
        self._answered, self._ended_at_s = self._in_round, now_s
        self.all_back_at = waiting + self._in_round if self._in_round else NEVER
        expected_s = self._return_s * (waiting + self._in_round)
        if self._in_round and expected_s < self._round_s:
            self.is_on = True
            self._timer = self._loop.call_later(min(PATIENCE * expected_s, self._round_s), self.end)

    def all_are_back(self) -> None:
        """As many appends as the last round had were made since its end."""
        self.all_back_at = NEVER
        self._are_back(self._answered, self._now_s())
        self.end()

    def _are_back(self, count: int, now_s: float) -> None:
        each_s = (now_s - self._ended_at_s) / count if count > 0 else inf
        self._return_s = _average(self._return_s, each_s) if self._return_s < inf else each_s

    def end(self) -> None:
        """End a pause, if there is one."""
        if self.is_on:
            self.stop()
            self._over()

    def stop(self) -> None:
        """End a pause for good: no round follows."""
        self.is_on = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _average(before_s: float, last_s: float) -> float:
    return before_s + (last_s - before_s) * WEIGHT if before_s else last_s
