"""Waiting until what was appended before a request is durable.

A Produce with acks=1 is acknowledged after the append; the high watermark follows with the flush. A client
that was given offset 9 and requests the end of the log must get 10, as from a Kafka without replicas, and not
the high watermark of before the flush. A Fetch does not wait for what others have written, but a client reads
what it has written itself on the same connection.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from klamm.broker.partitions.deadlines import Deadlines
from klamm.broker.partitions.partition_wait import FutureWait
from klamm.broker.partitions.registry import Partition
from klamm.protocol.errors import NO_ERROR

FLUSH_TIMEOUT_MS: Final = 5_000  # for a disk that hangs; the time-outs of clients are longer
_MANY_WRITTEN: Final = 100


@dataclass(frozen=True, slots=True)
class PendingFlush:
    """A log with records that are not durable, as it was at one moment."""

    partition: Partition
    end_offset: int
    flush_failures: int

    @property
    def is_over(self) -> bool:
        """The records are durable, or never will be."""
        partition = self.partition
        return (
            partition.error_code is not NO_ERROR
            or partition.flush_failures != self.flush_failures
            or partition.log.high_watermark >= self.end_offset
        )


def pending_flushes(partitions: Iterable[Partition | None]) -> list[PendingFlush]:
    """Those of the partitions that have records which are not durable yet."""
    found = []
    for partition in partitions:
        if partition is not None and partition.error_code is NO_ERROR:
            log = partition.log
            if log.high_watermark < log.log_end_offset:
                found.append(PendingFlush(partition, log.log_end_offset, partition.flush_failures))
    return found


def remember_write(written: dict[Partition, None], partition: Partition) -> None:
    """Remember a partition in what a connection has written to without waiting for the disk."""
    if len(written) >= _MANY_WRITTEN:
        pending = [each.partition for each in pending_flushes(written)]
        written.clear()
        written.update(dict.fromkeys(pending))
    written[partition] = None


def own_pending_flushes(written: dict[Partition, None]) -> list[PendingFlush]:
    """What a connection has written that is not durable yet. Forgets what it has written."""
    pending = pending_flushes(written)
    written.clear()
    return pending


class FlushWait(FutureWait[None]):
    """Done when all the flushes are over, or late. Does not wait for later appends."""

    def __init__(
        self, loop: AbstractEventLoop, deadlines: Deadlines, pending: Iterable[PendingFlush], timeout_ms: int
    ) -> None:
        self._pending = list(pending)
        super().__init__(loop, deadlines, [each.partition for each in self._pending], timeout_ms)

    def is_over(self) -> bool:
        self._pending = [each for each in self._pending if not each.is_over]
        return not self._pending

    def result(self) -> None:
        return None
