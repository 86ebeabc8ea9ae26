"""Periodic work of a broker: retention, checkpoints, expiry, cleaning, housekeeping."""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop, Task, TimerHandle, sleep
from collections.abc import Callable, Coroutine
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from klamm.broker.partitions.loading import when_loaded
from klamm.broker.partitions.registry import Partition
from klamm.protocol.errors import ErrorCode
from klamm.storage.log import LogError, MustLoadError

if TYPE_CHECKING:
    from klamm.broker.services import Services
    from klamm.storage.engines.segments.files import Files

FIRST_RETENTION_AFTER_MS: Final = 30_000
SWEEP_MS: Final = 1000  # files to remove, logs to flush
# Partitions that a chore looks at in one turn of the loop, before requests have theirs: a fraction of a
# millisecond. All at once, 2,000 partitions delayed requests by 7 ms, and their first checkpoint by 16 ms.
AT_ONCE: Final = 50

_log = logging.getLogger(__name__)


class Every:
    """Runs a chore repeatedly, each time an interval after the last run ended.

    A chore that has nothing to wait for returns None: no task is made for it. With `since_s` it runs at whole
    intervals after that instant of the loop, so that several chores share one.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        name: str,
        interval_ms: Callable[[], int],
        chore: Callable[[], Coroutine[Any, Any, None] | None],
        *,
        first_after_ms: int | None = None,
        since_s: float | None = None,
    ) -> None:
        self._loop = loop
        self._since_s = since_s
        self._name = name
        self._interval_ms = interval_ms
        self._chore = chore
        self._task: Task[None] | None = None
        self._timer: TimerHandle | None = None
        if first_after_ms is None:
            self._arm(interval_ms())
        else:
            self._timer = loop.call_later(max(1, first_after_ms) / 1000, self._begin)

    async def stop(self) -> None:
        """Start no further run; wait for the one that is under way."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self._task is not None:
            await self._task

    def _arm(self, in_ms: int) -> None:
        interval_s = max(1, in_ms) / 1000
        if self._since_s is None:
            self._timer = self._loop.call_later(interval_s, self._begin)
            return
        # A thousandth more: seconds in a float are not exact, and this instant must not come again.
        passed = (self._loop.time() - self._since_s + 0.001) // interval_s
        self._timer = self._loop.call_at(self._since_s + (passed + 1) * interval_s, self._begin)

    def _begin(self) -> None:
        try:
            run = self._chore()
        except Exception:
            _log.exception("%s failed", self._name)
            run = None
        if run is None:
            self._arm(self._interval_ms())
        else:
            self._task = self._loop.create_task(self._run(run))

    async def _run(self, run: Coroutine[Any, Any, None]) -> None:
        try:
            await run
        except Exception:
            # One failed run must not prevent later ones.
            _log.exception("%s failed", self._name)
        self._task = None
        if self._timer is not None:
            self._arm(self._interval_ms())


class Chores:
    """The periodic work of one broker."""

    def __init__(self, services: Services, sweep_ms: int = SWEEP_MS, *, are_aligned: bool = False) -> None:
        self._services = services
        self._since_s = since_s = services.loop.time() if are_aligned else None
        self._is_called_back = False
        loop = services.loop
        self._running = [
            Every(
                loop,
                "retention",
                lambda: services.config.log_retention_check_interval_ms,
                self.delete_old_segments,
                first_after_ms=min(FIRST_RETENTION_AFTER_MS, services.config.log_retention_check_interval_ms),
                since_s=since_s,
            ),
            Every(
                loop,
                "checkpoints",
                lambda: services.config.log_flush_offset_checkpoint_interval_ms,
                self.checkpoint,
                since_s=since_s,
            ),
            Every(
                loop,
                "producer expiry",
                lambda: services.config.producer_id_expiration_check_interval_ms,
                self.expire_producers,
                since_s=since_s,
            ),
            Every(loop, "housekeeping", lambda: sweep_ms, self.keep_house, since_s=since_s),
            Every(loop, "flush by time", lambda: sweep_ms, self.flush_by_time, since_s=since_s),
        ]

    def add_cleaning(self, files: Files) -> None:
        """Compact logs periodically."""
        services = self._services

        async def run() -> None:
            if services.cleaning is None:
                # Imported in the first run, to keep the start of a broker fast.
                module = await services.run_blocking(import_module, "klamm.broker.upkeep.cleaning")
                services.cleaning = module.Cleaning(services, files)
            if services.cleaning is not None and not self._is_called_back:
                await services.cleaning.clean()

        def clean() -> Coroutine[Any, Any, None] | None:
            known = services.cleaning
            return run() if known is None or known.cleaner.has_due() else None

        self._running.append(
            Every(
                services.loop,
                "cleaning",
                lambda: services.config.log_cleaner_backoff_ms,
                clean,
                since_s=self._since_s,
            )
        )

    def call_back(self) -> None:
        """Cancel long work: the broker is about to stop."""
        self._is_called_back = True
        if self._services.cleaning is not None:
            self._services.cleaning.call_back()

    async def stop(self) -> None:
        """Start no further runs; wait for those that are under way."""
        for each in self._running:
            await each.stop()

    def delete_old_segments(self) -> Coroutine[Any, Any, None] | None:
        """Logs that have to load something first are looked at in a task, after the others."""
        clock = self._services.clock
        not_loaded: list[Partition] = []

        def delete(partition: Partition) -> None:
            try:
                partition.retention.delete_old_segments(clock.now_ms(), clock.timestamp_ms())
            except MustLoadError:
                not_loaded.append(partition)
            except (LogError, OSError) as error:
                _log.error("%s: retention failed: %s", partition.name, error)

        rest = self._for_each(delete)
        return None if rest is None and not not_loaded else self._load_and_delete(rest, not_loaded)

    async def _load_and_delete(
        self, rest: Coroutine[Any, Any, None] | None, not_loaded: list[Partition]
    ) -> None:
        if rest is not None:
            await rest
        clock = self._services.clock
        for partition in not_loaded:
            try:
                retention = partition.retention
                await when_loaded(
                    self._services.run_blocking,
                    partial(retention.delete_old_segments, clock.now_ms(), clock.timestamp_ms()),
                )
            except (LogError, OSError) as error:
                _log.error("%s: retention failed: %s", partition.name, error)

    async def checkpoint(self) -> None:
        # Segments that are synced from now on are in the next checkpoint.
        self._services.flusher.sync_segments()
        names = [partition.name for partition in self._services.partitions]
        failure: LogError | None = None
        for start in range(0, len(names), AT_ONCE):
            work = self._services.logs.start_checkpoint(names[start : start + AT_ONCE])
            try:
                await self._services.run_blocking(work)
            except LogError as error:
                failure = error  # the others may be in another directory
        if failure is not None:
            raise failure

    def expire_producers(self) -> Coroutine[Any, Any, None] | None:
        clock, config = self._services.clock, self._services.config
        return self._for_each(
            lambda partition: partition.transactions.expire_producers(
                clock.timestamp_ms(), config.producer_id_expiration_ms
            )
        )

    def keep_house(self) -> Coroutine[Any, Any, None] | None:
        work = self._services.logs.start_housekeeping(self._services.clock.now_ms())
        return None if work is None else self._run_blocking(work)

    async def _run_blocking(self, work: Callable[[], object]) -> None:
        await self._services.run_blocking(work)

    def flush_by_time(self) -> None:
        """Flush logs whose `flush.ms` has passed. Appends check it themselves; this is for idle logs.

        All others are left alone: a broker has many partitions, and this runs every second.
        """
        now_ms = self._services.clock.now_ms()
        for partition in self._services.partitions.flushed_by_time:
            if partition.error_code is ErrorCode.none and partition.log.sync_is_due(now_ms):
                self._services.flusher.mark(partition)

    def _for_each(self, look: Callable[[Partition], object]) -> Coroutine[Any, Any, None] | None:
        """Look at every partition that is served: at some now, at the others in later turns of the loop."""
        partitions = [each for each in self._services.partitions if each.error_code is ErrorCode.none]
        for partition in partitions[:AT_ONCE]:
            look(partition)
        return self._look_at(partitions[AT_ONCE:], look) if len(partitions) > AT_ONCE else None

    async def _look_at(self, partitions: list[Partition], look: Callable[[Partition], object]) -> None:
        for number, partition in enumerate(partitions):
            if number % AT_ONCE == 0:
                await sleep(0)
            if partition.error_code is ErrorCode.none:  # it may have gone meanwhile
                look(partition)
