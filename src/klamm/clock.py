"""Time as an argument: everything that needs an instant is handed a Clock."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks in one: deadlines are measured on `now_ms`, records are dated by `timestamp_ms`."""

    def now_ms(self) -> int:
        """A monotonic instant; only differences mean anything."""
        ...

    def timestamp_ms(self) -> int:
        """The wall clock, milliseconds since 1970."""
        ...


class SystemClock:
    """The clocks of this machine."""

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def timestamp_ms(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that stands still until it is moved; tests live through a week in a millisecond."""

    def __init__(self, now_ms: int = 0, timestamp_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._ahead_ms = timestamp_ms - now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def timestamp_ms(self) -> int:
        return self._now_ms + self._ahead_ms

    def advance(self, duration_ms: int) -> None:
        """Let time pass."""
        if duration_ms < 0:
            raise ValueError(f"time does not run backwards: {duration_ms}")
        self._now_ms += duration_ms
