"""Decisions that raised are made again later, with back-off.

A decision changes nothing, so nothing is half done, and everything else in the shard goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from klamm.coordinator.runtime.outcome import Context, Reply
from klamm.coordinator.runtime.timers import Timer
from klamm.protocol.errors import ErrorCode

FIRST_BACKOFF_MS: Final = 1_000
MAX_BACKOFF_MS: Final = 60_000
MAX_POSTPONED: Final = 1_000  # per shard; with more than that it is loaded again


def backoff_ms(failures: int) -> int:
    """How long to wait after a decision has raised this many times before."""
    return min(FIRST_BACKOFF_MS << min(failures, 10), MAX_BACKOFF_MS)


class PostponedSignal(Timer):
    """A signal to be decided again, on behalf of the client of its first context."""

    __slots__ = ("_first", "request")

    def __init__(self, signal: object, first: Context) -> None:
        super().__init__(signal)
        self._first = first
        self.request: object | None = None  # the request that led to it, if it is one of a client

    @property
    def token(self) -> object:
        return self._first.token

    def context(self, now: Context) -> Context:
        """Its context at another time."""
        first = self._first
        return Context(
            now.now_ms,
            now.timestamp_ms,
            first.client_id,
            first.client_host,
            first.fresh_id,
            first.token,
            first.principal,
        )


class PostponedSignals:
    """The signals of one shard that are to be decided again."""

    __slots__ = ("_timers",)

    def __init__(self) -> None:
        self._timers: list[PostponedSignal] = []

    def __len__(self) -> int:
        return len(self._timers)

    def known(self, signal: object, context: Context) -> PostponedSignal | None:
        """The timer of a signal that waits already."""
        for timer in self._timers:
            if timer.token is context.token and timer.signal == signal:
                return timer
        return None

    def add(self, signal: object, context: Context) -> PostponedSignal:
        """A timer for a signal."""
        timer = PostponedSignal(signal, context)
        self._timers.append(timer)
        return timer

    def remove(self, timer: PostponedSignal) -> None:
        """It has been decided."""
        self._timers = [each for each in self._timers if each is not timer]

    def note_request(self, request: object, token: object) -> None:
        """Remember the request behind those with its token: it gets an error if they are given up."""
        for timer in self._timers:
            if timer.token is token:
                timer.request = request

    def refused(
        self, error_response: Callable[[object, ErrorCode], object], error_code: ErrorCode
    ) -> list[Reply]:
        """Error responses to the requests that led to them."""
        return [
            (timer.token, error_response(timer.request, error_code))
            for timer in self._timers
            if timer.request is not None
        ]
