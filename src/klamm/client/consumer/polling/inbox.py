"""From the client's thread to the polling thread: jobs to run, errors to raise, and a flag that wakes it."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from klamm.net.tasks import Promise

T = TypeVar("T")


class Signal(Protocol):
    """A flag that wakes the polling thread. Any thread sets it."""

    def set(self) -> None: ...

    def clear(self) -> None: ...

    async def wait(self, due_at_ms: int | None) -> None:
        """Wait until it is set, or until an instant."""
        ...


class PollerJob:
    """Work for the polling thread: callbacks, and changes that must not overlap with reading."""

    __slots__ = ("promise", "work")

    def __init__(self, work: Callable[[], Awaitable[Any]], promise: Promise[Any]) -> None:
        self.work = work
        self.promise = promise


class Inbox:
    """Filled by the client's thread, emptied inside `poll`, `close` and the like."""

    def __init__(self, signal: Signal) -> None:
        self.signal = signal
        self.jobs: deque[PollerJob] = deque()
        self.failures: deque[BaseException] = deque()
        self.callbacks: deque[Callable[[], Awaitable[None]]] = deque()  # of commits that are done, in order
        self.needs_attention = False  # plain, for a fast check

    def interrupt(self) -> None:
        """Have reading look here. In a forked child: nobody waits there, and locks may be held for ever."""
        self.needs_attention = True

    def ask(self, work: Callable[[], Awaitable[T]]) -> Promise[T]:
        """Run something inside `poll`; the promise settles with its result."""
        promise: Promise[T] = Promise()
        self.jobs.append(PollerJob(work, promise))
        self.wake_up()
        return promise

    def fail(self, error: BaseException) -> None:
        """Have `poll` raise something, once."""
        self.failures.append(error)
        self.wake_up()

    def call_back(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Have the callback of a commit run."""
        self.callbacks.append(callback)
        self.wake_up()

    def wake_up(self) -> None:
        """Wake up the polling thread."""
        self.needs_attention = True
        self.signal.set()
