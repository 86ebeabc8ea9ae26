"""The end of a log in memory: what is not durable yet, and the last of what is."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple


class TailBatch(NamedTuple):
    """A batch as it is stored."""

    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    data: bytes


class Tail:
    """The batches from an offset to the end of the log, without gaps in what was appended."""

    __slots__ = ("_lasts", "batches", "durable_count", "size_bytes", "start_offset")

    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset  # every batch from here on is in it
        self.batches: list[TailBatch] = []
        self._lasts: list[int] = []  # of the batches, for searching
        self.durable_count = 0  # of the first batches
        self.size_bytes = 0

    def add(self, batch: TailBatch) -> None:
        self.batches.append(batch)
        self._lasts.append(batch.last_offset)
        self.size_bytes += len(batch.data)

    def pending(self) -> Sequence[TailBatch]:
        """What is not durable yet."""
        return self.batches[self.durable_count :]

    def index_of(self, offset: int) -> int:
        """The index of the first batch that ends at or above an offset."""
        return bisect_left(self._lasts, offset)

    def made_durable(self, end_offset: int) -> None:
        """Everything below an offset is durable."""
        self.durable_count = self.index_of(end_offset)

    def trim(self, limit_bytes: int) -> None:
        """Drop the oldest durable batches until the rest fits a limit."""
        count = 0
        while self.size_bytes > limit_bytes and count < self.durable_count:
            self.size_bytes -= len(self.batches[count].data)
            count += 1
        if count:
            self.start_offset = self._lasts[count - 1] + 1
            del self.batches[:count], self._lasts[:count]
            self.durable_count -= count

    def cut(self, to_offset: int) -> None:
        """Drop the batches that end at or above an offset."""
        index = self.index_of(to_offset)
        self.size_bytes -= sum(len(batch.data) for batch in self.batches[index:])
        del self.batches[index:], self._lasts[index:]
        self.durable_count = min(self.durable_count, index)

    def read(self, offset: int, until_offset: int, max_bytes: int, *, at_least_one: bool) -> list[bytes]:
        """Batches from the one that holds an offset, below another, of at most a size."""
        parts: list[bytes] = []
        for index in range(self.index_of(offset), len(self.batches)):
            _, last_offset, _, data = self.batches[index]
            if last_offset >= until_offset:
                break
            max_bytes -= len(data)
            if max_bytes < 0 and (parts or not at_least_one):
                break
            parts.append(data)
        return parts
