"""Clocks: code that needs the time gets a Clock as an argument."""

from __future__ import annotations

import time
from typing import Protocol


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

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def timestamp_ms(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that moves only when told to, for tests."""

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
