"""Targets of consumer groups that are computed beside the event loop, in threads."""

from __future__ import annotations

import asyncio
import ctypes
from contextlib import suppress
from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING, Final

from klamm.assignors.server import AssignorFailure, CheckedTarget, GroupAssignor, GroupSpec
from klamm.assignors.server.computing import compute_target, overdue

if TYPE_CHECKING:
    from klamm.broker.partitions.registry import PartitionRegistry
    from klamm.broker.services import RunBlocking
    from klamm.coordinator.group.remembered import GroupMemory

LIMIT_MS: Final = 10_000
ENDING_S: Final = 1  # what one may need to notice that its time is over

Found = CheckedTarget | AssignorFailure


class OverdueError(BaseException):
    """Raised inside an assignor whose time is over: not an Exception, which it may catch."""


class TargetComputing:
    """Runs klamm's own assignors in the broker's threads, any other in a thread that is its own."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, run_blocking: RunBlocking, limit_ms: int = LIMIT_MS
    ) -> None:
        self._loop = loop
        self._run_blocking = run_blocking
        self._limit_ms = limit_ms
        self._own: dict[str, _OwnThread] = {}

    async def compute(self, assignor: GroupAssignor, group: GroupSpec) -> Found:
        """The target, or why there is none."""
        if assignor.takes_bounded_time:
            return await self._run_blocking(compute_target, assignor, group)
        thread = self._own.get(assignor.name)
        if thread is None:
            thread = self._own[assignor.name] = _OwnThread(self._loop, assignor, self._limit_ms)
        return await thread.compute(group)


class _OwnThread:
    """One assignor of a user: computes one target after the other, each in limited time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, assignor: GroupAssignor, limit_ms: int) -> None:
        self._loop = loop
        self._assignor = assignor
        self._limit_ms = limit_ms
        self._turn = asyncio.Lock()
        self._answer: asyncio.Future[Found] | None = None  # the last one
        self._group_id = ""  # whose it is

    async def compute(self, group: GroupSpec) -> Found:
        async with self._turn:
            name = self._assignor.name
            if self._answer is not None and not self._answer.done():
                return AssignorFailure(
                    f"assignor {name} is still busy with group {self._group_id}, long after its time limit"
                )
            answer: asyncio.Future[Found] = self._loop.create_future()
            self._answer = answer
            # A daemon: one that never returns must not keep the broker from ending.
            thread = Thread(target=self._run, args=(group, answer), name=f"assignor-{name}", daemon=True)
            self._group_id = group.group_id
            thread.start()
            await asyncio.wait([answer], timeout=self._limit_ms / 1000)
            if not answer.done():
                _interrupt(thread)
                await asyncio.wait([answer], timeout=ENDING_S)
            return answer.result() if answer.done() else overdue(name, self._limit_ms)

    def _run(self, group: GroupSpec, answer: asyncio.Future[Found]) -> None:
        found: Found = overdue(self._assignor.name, self._limit_ms)
        with suppress(OverdueError):
            found = compute_target(self._assignor, group)
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(_tell, answer, found)


def _tell(answer: asyncio.Future[Found], found: Found) -> None:
    if not answer.done():
        answer.set_result(found)


def _interrupt(thread: Thread) -> None:
    """End an assignor that computes for ever; one that waits for something ends when that comes."""
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(OverdueError)
        )


def with_lags(group: GroupSpec, memory: GroupMemory | None, partitions: PartitionRegistry) -> GroupSpec:
    """The group with the lag of each partition whose log is here, and for which an offset is committed."""

    def lag(topic: str, partition: int) -> int | None:
        stored = None if memory is None else memory.committed(topic, partition)
        served = partitions.get(topic, partition)
        if stored is None or served is None:
            return None
        return max(served.log.high_watermark - stored[1].offset, 0)

    topics = {
        topic_id: replace(topic, lags=[lag(topic.name, number) for number in range(topic.partition_count)])
        for topic_id, topic in group.topics.items()
    }
    return replace(group, topics=topics)
