"""The poll itself, on the caller's side: written once for threads, tasks and tests.

It waits only through the host's signal. Where that blocks, these coroutines never pause and `run_blocking`
drives them; where it pauses, they are awaited.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from klamm.client.consumer.offsets.auto_commit import NEVER
from klamm.client.consumer.polling.engine import Engine
from klamm.client.consumer.polling.hosts import ConsumerHost
from klamm.client.consumer.polling.inbox import PollerJob
from klamm.client.consumer.records import Records
from klamm.errors import ConsumerStoppedError, KlammTimeoutError, WakeupError
from klamm.net.tasks import Promise

T = TypeVar("T")


class Poller:
    """Reads records, runs jobs, waits."""

    def __init__(self, engine: Engine, host: ConsumerHost) -> None:
        self._engine = engine
        self._host = host
        self._inbox = engine.inbox
        self._signal = engine.inbox.signal
        self._buffer = engine.buffer
        self._auto_commit = engine.auto_commit
        self._is_woken = False
        self._is_stopped = False
        self.ignores_wakeups = False  # closing goes through
        self.poll_count = 0

    def wake_up(self) -> None:
        """Make the call that waits, or the next one, raise WakeupError; from any thread."""
        self._is_woken = True
        self._signal.set()

    def stop_reading(self) -> None:
        """Make the call that waits, and every later one, raise ConsumerStoppedError."""
        self._is_stopped = True
        self._inbox.wake_up()

    def raise_if_woken(self) -> None:
        if self._is_stopped and not self.ignores_wakeups:
            raise ConsumerStoppedError("the consumer was closed by another task")
        if self._is_woken and not self.ignores_wakeups:
            self._is_woken = False
            raise WakeupError("wakeup() was called")

    def poll_nowait(self, limit: int) -> Records | None:
        """What is buffered, without a word to the client's thread; None when there is more to do."""
        self._host.check()
        engine = self._engine
        now_ms = self._host.clock.now_ms()
        engine.last_poll_ms = now_ms
        if self._inbox.needs_attention or self._is_woken or not self._buffer or not engine.is_settled:
            return None
        self.poll_count += 1
        if now_ms >= self._auto_commit.due_at_ms:
            self._auto_commit.run_if_due(now_ms)
        return self._take(limit)

    def _take(self, limit: int) -> Records | None:
        chunks, has_moved = self._buffer.take(limit, self._on_room)
        return Records(chunks) if chunks or has_moved else None

    def _on_room(self) -> None:
        self._host.submit(self._engine.on_poll)

    async def poll(self, due_at_ms: int | None, limit: int) -> Records:
        """Records; none when the time is up or a position advanced without any.

        `due_at_ms` is an instant of `host.patience`.
        """
        self._host.check()
        engine, clock = self._engine, self._host.clock
        engine.last_poll_ms = clock.now_ms()
        self.poll_count += 1
        self.raise_if_woken()
        for error in (engine.commits.fenced, engine.membership.fatal):
            if error is not None:
                raise error
        self._raise_failures()
        engine.poll_depth += 1
        self._host.submit(engine.on_poll)
        try:
            while True:
                self._signal.clear()
                self.raise_if_woken()
                self._auto_commit.run_if_due(clock.now_ms())
                await self.run_jobs()
                records = self._take(limit)
                if records is not None:
                    return records
                if due_at_ms is not None and self._host.patience.now_ms() >= due_at_ms:
                    return Records()
                self._host.check()
                await self._wait(due_at_ms)
        finally:
            engine.poll_depth -= 1

    async def _wait(self, due_at_ms: int | None) -> None:
        engine = self._engine
        until_ms = self._auto_commit.due_at_ms
        if due_at_ms is not None:
            until_ms = min(until_ms, self.on_clock(due_at_ms))
        engine.is_waiting = True
        try:
            await self._signal.wait(None if until_ms == NEVER else until_ms)
        finally:
            engine.is_waiting = False
            engine.last_poll_ms = self._host.clock.now_ms()

    def on_clock(self, due_at_ms: int) -> int:
        """When a time-out of a call ends on the client's clock."""
        return self._host.clock.now_ms() + due_at_ms - self._host.patience.now_ms()

    async def run_jobs(self) -> None:
        """Run the jobs of the client's thread; raise its errors."""
        inbox = self._inbox
        inbox.needs_attention = False
        try:
            if inbox.callbacks:
                await self.run_callbacks()
            if inbox.failures:
                raise inbox.failures.popleft()
            while inbox.jobs:
                job = inbox.jobs.popleft()
                try:
                    result = await job.work()
                except BaseException as error:
                    self._failed(job, error)
                    raise
                self._host.submit(partial(self._settle, job.promise, result))
        finally:
            if inbox.jobs or inbox.failures or inbox.callbacks:
                inbox.needs_attention = True

    def _raise_failures(self) -> None:
        if self._inbox.failures:
            raise self._inbox.failures.popleft()

    async def run_callbacks(self) -> None:
        """Run the callbacks of finished commits, in order."""
        while self._inbox.callbacks:
            await self._inbox.callbacks.popleft()()

    def _failed(self, job: PollerJob, error: BaseException) -> None:
        if isinstance(error, Exception) and not isinstance(error, WakeupError):
            self._host.submit(partial(job.promise.fail, error))
        else:  # a wakeup, or a cancelled task: it goes on where it was
            self._inbox.jobs.appendleft(job)

    def _settle(self, promise: Promise[Any], result: object) -> None:
        promise.resolve(result)
        self._engine.job_done()

    async def ask(
        self, make: Callable[[], Coroutine[Promise[Any], None, T]], due_at_ms: int | None = None
    ) -> T:
        """Run a coroutine on the client's thread and wait for its result."""
        self._host.check()
        settled: list[Promise[T]] = []

        def done(promise: Promise[T]) -> None:
            settled.append(promise)
            self._signal.set()

        self._host.submit(lambda: self._engine.core.tasks.spawn(make()).when_done(done))
        while not settled:
            self._signal.clear()
            if settled:
                break
            self.raise_if_woken()
            self._host.check()
            if due_at_ms is not None and self._host.patience.now_ms() >= due_at_ms:
                raise KlammTimeoutError("no answer in time")
            await self._signal.wait(None if due_at_ms is None else self.on_clock(due_at_ms))
        return settled[0].result()
