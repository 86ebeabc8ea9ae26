"""An event loop on a clock that is moved, not waited for: a week of timers runs in a millisecond."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from klamm.clock import ManualClock

Result = TypeVar("Result")


class Leap:
    """In a selector's place: instead of waiting for sockets, it moves the clock to the next timer."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("all tasks wait and no timer is armed: there is nothing left to do")
        if timeout > 0:
            # Seconds in a float carry a little dust: it must not become a millisecond.
            self._clock.advance(max(1, math.ceil(timeout * 1000 - 0.001)))
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs callbacks in order, timers at their virtual instant; sockets and threads do not exist.

    For coroutines that wait, back off and time out: `with VirtualLoop() as loop: loop.run(coroutine)`. Its
    clock moves to the next timer when nothing else is left to do, and not with real time.
    """

    def __init__(self, clock: ManualClock | None = None) -> None:
        super().__init__()
        self.clock = clock or ManualClock()
        self._selector = Leap(self.clock)
        self._clock_resolution = 0.000_01  # a timer is due when the clock shows its millisecond

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps who would have to be woken."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        """A loop without sockets leaves nothing behind when a failed test forgets to close it."""

    def time(self) -> float:
        return self.clock.now_ms() / 1000

    def pass_ms(self, duration_ms: int) -> None:
        """Let time pass, and everything happen that is due until then."""
        self.call_later(duration_ms / 1000, self.stop)
        self.run_forever()

    def settle(self) -> None:
        """Let everything happen that needs no time (and one millisecond)."""
        self.pass_ms(1)

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """What a coroutine returns, however long it waits."""
        return self.run_until_complete(coroutine)
