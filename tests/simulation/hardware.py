"""What a simulated machine is made of: a disk with a switch, threads without threads, a durable memory."""

from __future__ import annotations

import asyncio
import math
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, Final, Literal, TypeVar, TypeVarTuple

from klamm.clock import ManualClock
from klamm.storage.engines.memory import MemoryFile
from klamm.storage.engines.memory_cluster import MemoryCluster
from klamm.storage.engines.segments.files import Chunk
from klamm.storage.engines.simulated_disk import FailingOperation, Operation, PowerLossError, SimulatedFiles
from simulation.faults import Faults
from simulation.loops import ProcessLoop

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

# Before an append reaches the disk; in the middle of the next write; when the next sync is done and nobody
# has heard of it. Or the machine lives on, and the next sync fails.
Moment = Literal["before", "torn", "after", "refused"]

_SLOW_MS: Final = (500, 3_000, 12_000)


class SyncOnLoopError(Exception):
    """A file is synced where all clients wait for it."""


class Disk(SimulatedFiles):
    """A disk with a switch: while it is off nothing is written, and nobody is told so politely.

    While clients are served it refuses to sync on the event loop.
    """

    def __init__(self, random: Random, clock: ManualClock, on_loss: Callable[[], None]) -> None:
        super().__init__(random, clock)
        self.clock = clock
        self.rates = Faults()
        self._on_loss = on_loss
        self._fails_at: Moment | None = None
        self.is_serving: Callable[[], bool] = lambda: False
        self.is_in_thread = False  # virtually
        self.refusals: list[str] = []  # where it was to sync on the event loop

    def _check_place(self) -> None:
        if self.is_serving() and not self.is_in_thread and not self._is_off:
            frames = [each for each in traceback.extract_stack() if "/klamm/" in each.filename]
            self.refusals.append("".join(traceback.format_list(frames[-6:])))
            raise SyncOnLoopError(self.refusals[-1])

    def fail_at(self, moment: Moment) -> None:
        """Fail once, at this moment."""
        if moment == "before":
            self.switch_off()
            raise PowerLossError
        if moment == "refused":
            self.faults.append(FailingOperation("sync"))
        else:
            self._fails_at = moment

    def arm(self, rates: Faults) -> None:
        """Draw the moment of the next loss."""
        self.rates = rates
        chance = rates.crash + rates.torn_write
        self.power_fails_at = None
        if chance > 0:
            lives = math.ceil(math.log(1.0 - self._random.random()) / math.log(1.0 - chance))
            self.power_fails_at = self.counters.total + max(1, lives)

    @property
    def is_off(self) -> bool:
        return self._is_off

    def switch_off(self) -> None:
        if not self._is_off:
            self._is_off = True
            self._on_loss()

    def switch_on(self, *, after_power_loss: bool) -> None:
        self._is_off = False
        self.power_fails_at = None
        if after_power_loss:
            self.crash()
        else:
            self.kill()

    def _asked(self, operation: Operation, on: str | MemoryFile) -> None:
        if self.rates.io_error and not self._is_off and self._random.random() < self.rates.io_error:
            self.faults.append(FailingOperation(operation))
        was_off = self._is_off
        try:
            super()._asked(operation, on)
        except PowerLossError:
            if not was_off:
                self._on_loss()
            raise

    def pwritev(self, handle: int, chunks: Sequence[Chunk], position: int, /) -> int:
        self._check_power()
        if self._fails_at == "torn":
            self._fails_at = None
            self.power_fails_at = self.counters.total + 1
        return super().pwritev(handle, chunks, position)

    def sync_directory(self, path: str) -> None:
        self._check_place()
        super().sync_directory(path)

    def sync(self, handle: int) -> None:
        self._check_place()
        super().sync(handle)
        if self._fails_at == "after":
            self._fails_at = None
            self.switch_off()
            raise PowerLossError


class Threads:
    """`run_blocking` without threads: work happens somewhere between the call and its end."""

    def __init__(
        self, loop: ProcessLoop, random: Random, rates: Callable[[], Faults], disk: Disk | None = None
    ) -> None:
        self._loop = loop
        self._random = random
        self._rates = rates
        self._disk = disk

    def __call__(
        self, function: Callable[[*Arguments], Result], *arguments: *Arguments
    ) -> asyncio.Future[Result]:
        future: asyncio.Future[Result] = self._loop.create_future()
        random = self._random

        def work() -> None:
            try:
                with self._in_thread():
                    result = function(*arguments)
            except Exception as error:
                self._loop.call_later(after_ms / 1000, self._end, future, None, error)
            else:
                self._loop.call_later(after_ms / 1000, self._end, future, result, None)

        before_ms, after_ms = random.randrange(3), random.randrange(2)
        if random.random() < self._rates().slow_flush:
            slow_ms = random.choice(_SLOW_MS)
            part_ms = random.randrange(slow_ms)
            before_ms, after_ms = before_ms + part_ms, after_ms + slow_ms - part_ms
        self._loop.call_later(before_ms / 1000, work)
        return future

    @contextmanager
    def _in_thread(self) -> Iterator[None]:
        if self._disk is None:
            yield
            return
        self._disk.is_in_thread = True
        try:
            yield
        finally:
            self._disk.is_in_thread = False

    def _end(self, future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


class DurableCluster(MemoryCluster):
    """A cluster's memory that survives its broker; the broker can die before and after every change."""

    def __init__(self, disk: Disk, random: Random) -> None:
        super().__init__(random=random)
        self._disk = disk
        self._random = random

    @contextmanager
    def _changing(self, *, is_registration: bool = False) -> Iterator[Any]:
        self._risk()
        with super()._changing(is_registration=is_registration) as content:
            yield content
        self._risk()

    def _risk(self) -> None:
        # A change here is rarer than one of a log, and as interesting: ten times the chance.
        if not self._disk.is_off and self._random.random() < self._disk.rates.crash * 10:
            self._disk.switch_off()
        if self._disk.is_off:
            raise PowerLossError

    def allocate_producer_ids(self, count: int) -> range:
        self._risk()
        block = super().allocate_producer_ids(count)
        self._risk()
        return block
