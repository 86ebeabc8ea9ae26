"""The end of a log in memory: what is not durable yet, and the last of what is.

What is not durable has no other place: while the database cannot be reached it only grows. So a store limits
what its logs have of it together (`UnflushedBytes`), and refuses appends beyond that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from klamm.protocol.errors import ErrorCode
from klamm.storage.log import LogError

# Batches are dropped when there are an eighth more than may be kept: those that stay move to the front.
_SLACK_PARTS = 8


_BATCH_OVERHEAD_BYTES: Final = 500  # of memory, besides the bytes of a batch


class UnflushedBytes:
    """What the logs of a store have appended, and not made durable."""

    __slots__ = ("limit_bytes", "size_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.size_bytes = 0

    def check(self, name: str) -> None:
        """Raises LogError while there is no room for another batch. Producers and coordinators retry it."""
        if self.size_bytes >= self.limit_bytes:
            raise LogError(
                ErrorCode.not_enough_replicas,
                f"{name}: {self.limit_bytes} bytes wait for PostgreSQL, more are not taken: is it reachable, "
                "and fast enough?",
            )


class TailBatch:
    """A batch as it is stored."""

    __slots__ = ("base_offset", "data", "last_offset", "max_timestamp_ms")

    def __init__(self, base_offset: int, last_offset: int, max_timestamp_ms: int, data: bytes) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.max_timestamp_ms = max_timestamp_ms
        self.data = data


class Tail:
    """The batches from an offset to the end of the log, without gaps in what was appended."""

    __slots__ = ("_backlog", "batches", "durable_count", "size_bytes", "start_offset")

    def __init__(self, start_offset: int, backlog: UnflushedBytes) -> None:
        self._backlog = backlog
        self.start_offset = start_offset  # every batch from here on is in it
        self.batches: list[TailBatch] = []
        self.durable_count = 0  # of the first batches
        self.size_bytes = 0

    def add(self, batch: TailBatch) -> None:
        self.batches.append(batch)
        self.size_bytes += len(batch.data)
        self._backlog.size_bytes += len(batch.data) + _BATCH_OVERHEAD_BYTES

    def pending(self) -> Sequence[TailBatch]:
        """What is not durable yet."""
        return self.batches[self.durable_count :]

    def index_of(self, offset: int) -> int:
        """The index of the first batch that ends at or above an offset."""
        low, high = 0, len(self.batches)
        while low < high:
            middle = (low + high) // 2
            batch = self.batches[middle]
            if batch.last_offset < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def made_durable(self, end_offset: int) -> None:
        """Everything below an offset is durable."""
        count = self.durable_count
        while count < len(self.batches):
            batch = self.batches[count]
            if batch.last_offset >= end_offset:
                break
            self._backlog.size_bytes -= len(batch.data) + _BATCH_OVERHEAD_BYTES
            count += 1
        self.durable_count = count

    def trim(self, limit_bytes: int) -> None:
        """Drop the oldest durable batches until the rest fits a limit, if there are many too many."""
        if self.size_bytes <= limit_bytes + limit_bytes // _SLACK_PARTS:
            return
        count = 0
        while self.size_bytes > limit_bytes and count < self.durable_count:
            batch = self.batches[count]
            self.size_bytes -= len(batch.data)
            self.start_offset = batch.last_offset + 1
            count += 1
        if count:
            del self.batches[:count]
            self.durable_count -= count

    def cut(self, to_offset: int) -> None:
        """Drop the batches that end at or above an offset."""
        index = self.index_of(to_offset)
        self.size_bytes -= sum([len(batch.data) for batch in self.batches[index:]])
        for batch in self.batches[max(index, self.durable_count) :]:
            self._backlog.size_bytes -= len(batch.data) + _BATCH_OVERHEAD_BYTES
        del self.batches[index:]
        self.durable_count = min(self.durable_count, index)

    def drop(self) -> None:
        """Nobody reads it any more, and what is not durable never will be."""
        self.cut(self.start_offset)

    def read(self, offset: int, until_offset: int, max_bytes: int, *, at_least_one: bool) -> list[bytes]:
        """Batches from the one that holds an offset, below another, of at most a size."""
        parts: list[bytes] = []
        for index in range(self.index_of(offset), len(self.batches)):
            batch = self.batches[index]
            if batch.last_offset >= until_offset:
                break
            max_bytes -= len(batch.data)
            if max_bytes < 0 and (parts or not at_least_one):
                break
            parts.append(batch.data)
        return parts
