"""What is appended and not on disk yet: waiting for it where a client may ask for what it was told.

Acks 1 are given after the append, the high watermark follows with the flush. Who was told "stored at offset
9" and asks for the end of the log must hear 10, as from a Kafka without replicas, and not what a flush that
is under way had found.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future
from collections.abc import Iterable
from dataclasses import dataclass

from klamm.broker.partitions.registry import Partition
from klamm.protocol.errors import NO_ERROR


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A log whose end is not on disk, as it was at one moment."""

    partition: Partition
    end_offset: int
    flush_failures: int

    @property
    def is_over(self) -> bool:
        """All of it is on disk, or never will be."""
        partition = self.partition
        return (
            partition.error_code is not NO_ERROR
            or partition.flush_failures != self.flush_failures
            or partition.log.high_watermark >= self.end_offset
        )


def unsettled(partitions: Iterable[Partition | None]) -> list[Unsettled]:
    """Those of the partitions that have something on its way to the disk."""
    found = []
    for partition in partitions:
        if partition is not None and partition.error_code is NO_ERROR:
            log = partition.log
            if log.high_watermark < log.log_end_offset:
                found.append(Unsettled(partition, log.log_end_offset, partition.flush_failures))
    return found


def settled(loop: AbstractEventLoop, waiting: Iterable[Unsettled], patience_ms: int) -> Future[None]:
    """Done when all of it is over, or patience is; what is appended meanwhile is not waited for."""
    left = dict.fromkeys(waiting)
    future: Future[None] = loop.create_future()

    def look() -> None:
        for each in [each for each in left if each.is_over]:
            del left[each]
            each.partition.unwatch(look)
        if not left:
            end()

    def end() -> None:
        if not future.done():
            future.set_result(None)

    def forget(_: Future[None]) -> None:
        timer.cancel()
        for each in left:
            each.partition.unwatch(look)

    for each in left:
        each.partition.watch(look)
    timer = loop.call_later(patience_ms / 1000, end)
    # Also when the connection is gone and nobody wants the answer any more.
    future.add_done_callback(forget)
    return future
