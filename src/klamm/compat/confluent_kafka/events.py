"""Callbacks that wait until the program calls `poll` or `flush`, as confluent-kafka runs them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from klamm.clock import Clock, condition_on, patience_of


class Events:
    """A queue of calls. `add` from any thread; `serve` runs them on the thread that calls it."""

    def __init__(self, clock: Clock) -> None:
        self._patience = patience_of(clock)
        self._changed = condition_on(clock)
        self._calls: deque[Callable[[], object]] = deque()

    def add(self, call: Callable[[], object]) -> None:
        with self._changed:
            self._calls.append(call)
            self._changed.notify_all()

    def stir(self) -> None:
        """Let those that wait look again at what they wait for."""
        with self._changed:
            self._changed.notify_all()

    def __len__(self) -> int:
        return len(self._calls)

    def serve(self, timeout: float | None = 0, until: Callable[[], bool] | None = None) -> int:
        """Run what there is, waiting for a first call for at most `timeout` seconds; how many ran.

        With `until` it goes on until that is true or the time is up. What a callback raises, is raised here;
        the calls behind it stay.
        """
        due_at_ms = None if timeout is None else self._patience.now_ms() + timeout * 1000
        count = 0
        while True:
            call = self._next(due_at_ms, until, may_wait=until is not None or not count)
            if call is None:
                return count
            count += 1
            call()

    def _next(
        self, due_at_ms: float | None, until: Callable[[], bool] | None, *, may_wait: bool
    ) -> Callable[[], object] | None:
        with self._changed:
            while not self._calls:
                if not may_wait or (until is not None and until()):
                    return None
                left_s = None if due_at_ms is None else (due_at_ms - self._patience.now_ms()) / 1000
                if left_s is not None and left_s <= 0:
                    return None
                self._changed.wait(left_s)
            return self._calls.popleft()
