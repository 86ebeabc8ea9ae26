"""The data of one partition in a fetch response: checked, filtered and decoded batch by batch."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.client.consumer.markers import as_record
from klamm.client.consumer.records import Chunk, deserialized
from klamm.client.consumer.settings import ConsumerSettings
from klamm.errors import KlammError, ProtocolError, RecordTooLargeError
from klamm.protocol.errors import DecodeError
from klamm.protocol.types import Buffer, TopicPartition
from klamm.records.batch import BatchHeader, iter_headers
from klamm.records.committed import CommittedFilter
from klamm.records.core import scan
from klamm.records.layout import ScanEnd
from klamm.records.record import Record, decode_records


class Fetched:
    """Batches not yet returned. `next_offset` is the position after the records returned so far.

    Batches are decoded when they are needed, in the caller's thread. Aborted batches are never returned, and
    markers to those alone who ask for them; both advance `next_offset`.
    """

    __slots__ = (
        "_batch_end",
        "_batch_epoch",
        "_batch_time_type",
        "_batches",
        "_buffer",
        "_fault",
        "_filter",
        "_index",
        "_is_deserialized",
        "_pending",
        "_pending_at",
        "_settings",
        "end_offset",
        "leader_epoch",
        "left_count",
        "next_offset",
        "partition",
        "start_offset",
    )

    def __init__(
        self,
        partition: TopicPartition,
        fetch_offset: int,
        buffer: Buffer,
        settings: ConsumerSettings,
        aborted: Sequence[tuple[int, int]] = (),
        error: KlammError | None = None,
    ) -> None:
        self.partition = partition
        self.start_offset = fetch_offset
        self.next_offset = fetch_offset
        self.leader_epoch = -1
        self._settings = settings
        self._buffer = buffer
        self._batches, self._fault = _batches(partition, buffer, settings) if error is None else ([], error)
        self._index = 0
        self._batch_end = fetch_offset  # of the batch that `_pending` is from
        self._batch_epoch = -1
        self._batch_time_type = 0
        self._is_deserialized = False
        self._pending: Sequence[Record] = ()
        self._pending_at = 0
        self._filter = CommittedFilter(aborted) if settings.is_read_committed else None
        if not self._batches and self._fault is None and len(buffer):
            self._fault = RecordTooLargeError(
                f"{partition}: the batch at offset {fetch_offset} does not fit into a fetch; "
                "raise max.partition.fetch.bytes and fetch.max.bytes"
            )
        self.left_count = sum([header.record_count for _, header in self._batches])
        self.end_offset = self._batches[-1][1].next_offset if self._batches else fetch_offset

    @classmethod
    def of_records(
        cls, partition: TopicPartition, chunk: Chunk, next_offset: int, settings: ConsumerSettings
    ) -> Fetched:
        """Records that were put back; already deserialized."""
        fetched = cls(partition, chunk.records[0].offset, b"", settings)
        fetched._pending = chunk.records
        fetched._batch_end = next_offset
        fetched._batch_epoch = chunk.leader_epoch
        fetched._batch_time_type = chunk.timestamp_type
        fetched._is_deserialized = True
        fetched.left_count = len(chunk.records)
        fetched.end_offset = next_offset
        return fetched

    @property
    def is_drained(self) -> bool:
        return (
            self._fault is None
            and self._pending_at >= len(self._pending)
            and self._index >= len(self._batches)
        )

    @property
    def size_bytes(self) -> int:
        return len(self._buffer)

    @property
    def is_clean(self) -> bool:
        """Whether nothing is known to be wrong with it."""
        return self._fault is None

    def read(self, limit: int) -> list[Chunk]:
        """At most `limit` records. An error is raised only by a call that has none to give before it."""
        chunks: list[Chunk] = []
        before = self.next_offset
        while limit > 0:
            try:
                if self._pending_at >= len(self._pending) and not self._decode_next():
                    break
                chunk = self._hand_out(limit)
            except KlammError:
                if chunks or self.next_offset != before:
                    break
                raise
            if chunk is not None:
                chunks.append(chunk)
                limit -= len(chunk.records)
        self.left_count = max(0, self.left_count - sum([len(chunk.records) for chunk in chunks]))
        return chunks

    def _decode_next(self) -> bool:
        """Decode the next batch that has anything to give; False when there is none."""
        while self._index < len(self._batches):
            position, header = self._batches[self._index]
            next_offset = header.base_offset + header.last_offset_delta + 1
            if next_offset > self.next_offset and self._admits(position, header):
                records = self._decode(position, header)
                start = 0
                if records and records[0].offset < self.next_offset:
                    start = _first_at(records, self.next_offset)
                if start < len(records):
                    self._pending, self._pending_at = records, start
                    self._batch_end = next_offset
                    self._batch_epoch = header.leader_epoch
                    self._batch_time_type = int(header.timestamp_type)
                    self._index += 1
                    return True
            self._index += 1
            self.next_offset = max(self.next_offset, next_offset)
        if self._fault is not None:
            raise self._fault
        return False

    def _admits(self, position: int, header: BatchHeader) -> bool:
        is_shown = header.is_control and self._settings.shows_markers
        if self._filter is None:
            return is_shown or not header.is_control
        try:
            return self._filter.admits(self._buffer, position, header) or is_shown
        except DecodeError as error:
            raise self._corrupt(header.base_offset, error) from error

    def _decode(self, position: int, header: BatchHeader) -> list[Record]:
        try:
            records = decode_records(self._buffer, position)
            return [as_record(each, header) for each in records] if header.is_control else records
        except DecodeError as error:
            raise self._corrupt(header.base_offset, error) from error

    def _corrupt(self, offset: int, error: DecodeError) -> ProtocolError:
        return ProtocolError(f"{self.partition}: the batch at offset {offset} cannot be read: {error}")

    def _hand_out(self, limit: int) -> Chunk | None:
        start, stop = self._pending_at, min(self._pending_at + limit, len(self._pending))
        records = self._pending if stop - start == len(self._pending) else self._pending[start:stop]
        error = None
        if not self._is_deserialized:
            records, error = deserialized(self.partition, records, self._settings)
        if error is not None:
            # What precedes it goes out; the refused record stays, and is refused again.
            if not records:
                raise error
            stop = _first_at(self._pending, error.offset)
        self._pending_at = stop
        if stop < len(self._pending):
            self.next_offset = self._pending[stop].offset
        else:
            self._pending, self._pending_at = (), 0
            self.next_offset = self._batch_end
        self.leader_epoch = self._batch_epoch
        if not records:
            return None
        return Chunk(self.partition, records, self._batch_epoch, self._batch_time_type)


def _first_at(records: Sequence[Record], offset: int) -> int:
    for index, record in enumerate(records):
        if record.offset >= offset:
            return index
    return len(records)


def _batches(
    partition: TopicPartition, buffer: Buffer, settings: ConsumerSettings
) -> tuple[list[tuple[int, BatchHeader]], KlammError | None]:
    """The complete batches of a fetch, and the error of the batch after them, if any."""
    if settings.checks_crcs:
        batches, _, stopped_by = scan(buffer)
        if stopped_by in (ScanEnd.WHOLE, ScanEnd.TRUNCATED):
            return batches, None
        problem = f"its {stopped_by.name.lower()} is wrong"
        return batches, _damaged(partition, batches, problem)
    found: list[tuple[int, BatchHeader]] = []
    try:
        found.extend(iter_headers(buffer))
    except DecodeError as error:
        return found, _damaged(partition, found, str(error))
    return found, None


def _damaged(
    partition: TopicPartition, before: Sequence[tuple[int, BatchHeader]], problem: str
) -> ProtocolError:
    place = f"the batch after offset {before[-1][1].last_offset}" if before else "the first batch fetched"
    return ProtocolError(f"{partition}: {place} is damaged: {problem}")
