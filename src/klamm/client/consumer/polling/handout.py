"""Records of a poll, returned one by one; the rest can be put back."""

from __future__ import annotations

from collections.abc import Iterator

from klamm.client.consumer.fetch.buffer import FetchBuffer
from klamm.client.consumer.records import Chunk, ConsumerRecord, Records
from klamm.client.consumer.state import SubscriptionState


class Handout:
    """Keeps positions exact: a record that was not returned yet is not consumed.

    `count` grows with every record, as a sign of progress for `max.poll.interval.ms`.
    """

    __slots__ = ("_buffer", "_chunks", "_start", "_state", "count", "records")

    def __init__(self, state: SubscriptionState, buffer: FetchBuffer) -> None:
        self._state = state
        self._buffer = buffer
        self._chunks: list[Chunk] = []
        self._start = 0
        self.count = 0
        self.records: Iterator[ConsumerRecord] = iter(())

    def start(self, records: Records) -> None:
        self._chunks = list(records.chunks)
        self._start = self.count
        self.records = iter(records)

    @property
    def has_more(self) -> bool:
        """Whether records are left to return."""
        return self.count - self._start < sum(len(chunk.records) for chunk in self._chunks)

    def give_back(self) -> bool:
        """Return what is left to the buffer; whether there was anything."""
        chunks, self._chunks = self._chunks, []
        self.records = iter(())
        seen = self.count - self._start
        left: list[Chunk] = []
        for chunk in chunks:
            if seen >= len(chunk.records):
                seen -= len(chunk.records)
            elif seen:
                left.append(chunk._replace(records=chunk.records[seen:]))
                seen = 0
            else:
                left.append(chunk)
        if left:
            with self._state.lock:
                positions = {partition: state.offset for partition, state in self._state.partitions.items()}
                self._buffer.give_back(left, positions)
        return bool(left)
