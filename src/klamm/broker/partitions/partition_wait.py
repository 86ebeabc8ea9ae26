"""Waiting until partitions have changed as a request needs it, or until its time is over."""

from __future__ import annotations

from abc import ABC, abstractmethod
from asyncio import AbstractEventLoop, Future
from collections.abc import Awaitable, Coroutine, Iterable
from typing import Any, Generic, TypeVar, cast

from klamm.broker.partitions.deadlines import Deadlines
from klamm.broker.partitions.registry import Partition

Result = TypeVar("Result")


class PartitionWait(ABC):
    """Checks `is_over` after each change of its partitions, and calls `end` once."""

    def __init__(self, deadlines: Deadlines, partitions: Iterable[Partition], timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._deadlines = deadlines
        self._partitions = tuple(partitions)
        deadlines.add(self)
        for partition in self._partitions:
            partition.watch(self._changed)

    @abstractmethod
    def is_over(self) -> bool:
        """Whether there is nothing left to wait for."""

    @abstractmethod
    def end(self) -> None:
        """Complete the request: the wait is over, or late. Nothing is watched any more."""

    def expire(self) -> None:
        self.stop()
        self.end()

    def stop(self) -> None:
        """Watch nothing from now on."""
        self._deadlines.discard(self)
        for partition in self._partitions:
            partition.unwatch(self._changed)

    def _changed(self) -> None:
        if self.is_over():
            self.stop()
            self.end()


class FutureWait(PartitionWait, Generic[Result]):
    """A wait that completes a future, and stops when the future is cancelled with its connection."""

    def __init__(
        self, loop: AbstractEventLoop, deadlines: Deadlines, partitions: Iterable[Partition], timeout_ms: int
    ) -> None:
        super().__init__(deadlines, partitions, timeout_ms)
        self.future: Future[Result] = loop.create_future()
        self.future.add_done_callback(lambda _: self.stop())

    @abstractmethod
    def result(self) -> Result | Awaitable[Result]:
        """What the future is completed with; or an awaitable of that."""

    def end(self) -> None:
        if self.future.done():
            return
        try:
            result = self.result()
        except Exception as error:
            # Unexpected: the connection logs it, and answers with an error.
            self.future.set_exception(error)
        else:
            if isinstance(result, Coroutine):
                self._complete_after(result)
            else:
                self.future.set_result(cast("Result", result))

    def _complete_after(self, coming: Coroutine[Any, Any, Result]) -> None:
        loading = self.future.get_loop().create_task(coming)
        self.future.add_done_callback(lambda _: loading.cancel())

        def finish(_: Future[Result]) -> None:
            if self.future.done():
                return
            error = None if loading.cancelled() else loading.exception()
            if error is not None:
                self.future.set_exception(error)
            elif not loading.cancelled():
                self.future.set_result(loading.result())

        loading.add_done_callback(finish)
