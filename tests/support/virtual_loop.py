"""An event loop on a clock that is moved, not waited for: a week of timers runs in a millisecond."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple

from klamm.clock import ManualClock

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


class Leap:
    """In a selector's place: instead of waiting for sockets, it moves the clock to the next timer."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("everybody waits for somebody else: there is nothing left to do")
        if timeout > 0:
            # Seconds in a float carry a little dust: it must not become a millisecond.
            self._clock.advance(max(1, math.ceil(timeout * 1000 - 0.001)))
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs callbacks in order, timers at their virtual instant; sockets and threads do not exist."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.clock = clock
        self._selector = Leap(clock)
        self._clock_resolution = 0.000_01  # a timer is due when the clock shows its millisecond

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps who would have to be woken."""

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
        return self.run_until_complete(coroutine)


class VirtualDisk:
    """`run_blocking` without threads: each call takes as long as it is told to."""

    def __init__(self, loop: VirtualLoop, delay_ms: int = 0) -> None:
        self._loop = loop
        self.delay_ms = delay_ms
        self.calls = 0

    def __call__(
        self, function: Callable[[*Arguments], Result], *arguments: *Arguments
    ) -> asyncio.Future[Result]:
        future: asyncio.Future[Result] = self._loop.create_future()
        self.calls += 1

        def run() -> None:
            try:
                result = function(*arguments)
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        if self.delay_ms:
            self._loop.call_later(self.delay_ms / 1000, run)
        else:
            self._loop.call_soon(run)
        return future
