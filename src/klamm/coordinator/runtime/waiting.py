"""Requests to a shard that is being loaded.

Kafka refuses them at once, and the client asks again a few times: librdkafka reports a commit as failed after
three attempts within 300 ms. Loading takes less than that mostly, but not on a busy machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from klamm.coordinator.runtime.outcome import Context


class Waiting(NamedTuple):
    """A request, and its context from when it arrived."""

    request: object
    context: Context


class WaitingRequests:
    """In the order in which they arrived, each for the same time."""

    __slots__ = ("_requests", "patience_ms")

    def __init__(self, patience_ms: int) -> None:
        self.patience_ms = patience_ms  # 0: none is kept
        self._requests: deque[Waiting] = deque()

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, request: object, context: Context) -> None:
        self._requests.append(Waiting(request, context))

    def next_due_ms(self) -> int | None:
        """When the first one has waited for too long."""
        return self._requests[0].context.now_ms + self.patience_ms if self._requests else None

    def pop_first(self, now: Context) -> Waiting:
        """The first one, as if it arrived now."""
        waiting = self._requests.popleft()
        waiting.context.now_ms = now.now_ms
        waiting.context.timestamp_ms = now.timestamp_ms
        return waiting

    def pop_due(self, now_ms: int) -> Sequence[Waiting]:
        """Those that have waited for too long."""
        due: list[Waiting] = []
        while self._requests and self._requests[0].context.now_ms + self.patience_ms <= now_ms:
            due.append(self._requests.popleft())
        return due

    def pop_all(self) -> Sequence[Waiting]:
        waiting, self._requests = self._requests, deque()
        return waiting
