"""A broker's work on the disk, without threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from klamm.testing.virtual_loop import VirtualLoop

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


class VirtualDisk:
    """`run_blocking` without threads: each call takes as long as it is told to."""

    def __init__(self, loop: VirtualLoop, delay_ms: int = 0) -> None:
        self._loop = loop
        self.delay_ms = delay_ms
        self.calls = 0
        self.is_working = False  # a call is under way, which a thread would run

    def __call__(
        self, function: Callable[[*Arguments], Result], *arguments: *Arguments
    ) -> asyncio.Future[Result]:
        future: asyncio.Future[Result] = self._loop.create_future()
        self.calls += 1

        def run() -> None:
            was_working, self.is_working = self.is_working, True
            try:
                result = function(*arguments)
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)
            finally:
                self.is_working = was_working

        if self.delay_ms:
            self._loop.call_later(self.delay_ms / 1000, run)
        else:
            self._loop.call_soon(run)
        return future
