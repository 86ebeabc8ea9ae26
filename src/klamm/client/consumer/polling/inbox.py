"""From the client's thread to whoever polls: errands to run there, errors to raise, a bell."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from klamm.net.tasks import Promise

T = TypeVar("T")


class Signal(Protocol):
    """A bell. Rung from any thread; waited for by the one that polls."""

    def set(self) -> None: ...

    def clear(self) -> None: ...

    async def wait(self, due_at_ms: int | None) -> None:
        """Until it rings, or the instant comes."""
        ...


@dataclass(slots=True, eq=False)
class Errand:
    """Work for the poller: what a listener hears, what must not happen while records are handed out."""

    work: Callable[[], Awaitable[Any]]
    promise: Promise[Any]


class Inbox:
    """Filled by the client's thread, emptied inside `poll`, `close` and the like."""

    def __init__(self, signal: Signal) -> None:
        self.signal = signal
        self.errands: deque[Errand] = deque()
        self.failures: deque[BaseException] = deque()
        self.callbacks: deque[Callable[[], Awaitable[None]]] = deque()  # of commits that are done, in order
        self.needs_attention = False  # plain, for a quick look

    def ask(self, work: Callable[[], Awaitable[T]]) -> Promise[T]:
        """Have something done inside `poll`; settled with what comes of it."""
        promise: Promise[T] = Promise()
        self.errands.append(Errand(work, promise))
        self.ring()
        return promise

    def fail(self, error: BaseException) -> None:
        """Have `poll` raise something, once."""
        self.failures.append(error)
        self.ring()

    def call_back(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Have the callback of a commit run."""
        self.callbacks.append(callback)
        self.ring()

    def ring(self) -> None:
        """Make the poller look up."""
        self.needs_attention = True
        self.signal.set()
