"""Fetched data on its way from the client's thread to the caller's."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Final, NamedTuple

from klamm.client.consumer.fetch.fetched import Fetched
from klamm.client.consumer.records import Chunk
from klamm.client.consumer.settings import ConsumerSettings
from klamm.client.consumer.state import PartitionState, PositionStatus, SubscriptionState
from klamm.errors import KlammError, RecordDeserializationError
from klamm.protocol.types import TopicPartition


class Taken(NamedTuple):
    """The result of reading the buffer once."""

    chunks: list[Chunk]
    has_moved: bool  # some position advanced, perhaps only past a marker


class Buffered(NamedTuple):
    """What is here of one partition."""

    end_offset: int  # where it ends
    has_more: bool  # the broker is known to have more after it
    wants_more: bool  # and it is time to fetch that


Readable = tuple[Fetched, PartitionState, int]  # with the seek count at which it was found

FETCHES_AHEAD: Final = 2  # of one partition: one that is read, one that waits


class FetchBuffer:
    """Completed fetches, oldest first. A fetch is used only at the position it was made for."""

    def __init__(self, state: SubscriptionState, settings: ConsumerSettings) -> None:
        self._state = state
        self._settings = settings
        self._queue: deque[Fetched] = deque()
        self.record_count = 0  # returned so far

    def add(self, fetched: Fetched) -> None:
        with self._state.lock:
            self._queue.append(fetched)

    def partitions(self) -> dict[TopicPartition, Buffered]:
        """The partitions that have something here to go on with. Call it with the lock held.

        Data for a former position does not count, or a late response
        would prevent a fetch at the right offset.
        """
        last: dict[TopicPartition, Fetched] = {}
        counts: Counter[TopicPartition] = Counter()
        size_bytes = 0
        for fetched in self._queue:
            size_bytes += fetched.size_bytes
            partition = fetched.partition
            state = self._state.partitions.get(partition)
            if state is not None:
                reached = last[partition].end_offset if partition in last else state.offset
                if fetched.start_offset <= reached <= fetched.end_offset:
                    last[partition] = fetched
                    counts[partition] += 1
        has_room = size_bytes < self._settings.fetch_max_bytes
        found: dict[TopicPartition, Buffered] = {}
        for partition, fetched in last.items():
            state = self._state.partitions[partition]
            has_more = not self.is_at_end(state, fetched.end_offset)
            is_time = has_room and counts[partition] < FETCHES_AHEAD and fetched.is_clean
            is_asked = state.asked_offset == fetched.end_offset
            found[partition] = Buffered(fetched.end_offset, has_more, has_more and is_time and not is_asked)
        return found

    def is_at_end(self, state: PartitionState, offset: int) -> bool:
        """Whether the broker had nothing at this offset in its last response."""
        end_offset = state.last_stable_offset if self._settings.is_read_committed else state.high_watermark
        if end_offset < 0:  # not reported: a response of a session omits partitions without changes
            return offset == state.asked_offset
        return offset >= end_offset

    def drop(self, partition: TopicPartition) -> None:
        """Forget what is here of one partition."""
        with self._state.lock:
            self._queue = deque(fetched for fetched in self._queue if fetched.partition != partition)

    def clear(self) -> None:
        with self._state.lock:
            self._queue.clear()

    def __bool__(self) -> bool:
        return bool(self._queue)

    def take(self, limit: int, on_room: Callable[[], None]) -> Taken:
        """At most `limit` records. `on_room` is called when there is room for another fetch.

        An error is raised by the first call that has nothing to give before it. Decoding happens without the
        lock, and room is announced before it: the next fetch is under way meanwhile.
        """
        with self._state.lock:
            readable, has_room = self._readable(limit)
            has_room = has_room or any(item.wants_more for item in self.partitions().values())
        if has_room:
            on_room()
        chunks: list[Chunk] = []
        has_moved = False
        for fetched, state, seek_count in readable:
            try:
                read = fetched.read(limit)
            except KlammError as error:
                self._look_back(readable)
                if chunks or has_moved:
                    break
                self._refuse(fetched, error)
                on_room()
                raise
            with self._state.lock:
                if state.seek_count != seek_count:
                    self._remove(fetched)  # meanwhile the position was reset
                    continue
                has_moved |= fetched.next_offset != state.offset
                state.offset = fetched.next_offset
                state.read_topic_id = state.topic_id
                if fetched.leader_epoch >= 0:
                    state.leader_epoch = fetched.leader_epoch
                if fetched.is_drained:
                    self._queue.remove(fetched)
            chunks += read
            limit -= sum([len(chunk.records) for chunk in read])
            if not fetched.is_drained:
                break  # the limit is reached, or the next record cannot be read: the next call raises
        self._look_back(readable)
        self.record_count += sum([len(chunk.records) for chunk in chunks])
        return Taken(chunks, has_moved)

    def _readable(self, limit: int) -> tuple[list[Readable], bool]:
        """The fetches that `limit` records need, oldest first; whether they leave room for others.

        Outdated fetches are dropped. Where all buffered data of a partition will be returned, the
        next fetch may go on behind it at once.
        """
        dropped: list[Fetched] = []
        found: list[Readable] = []
        reached: dict[TopicPartition, int] = {}
        has_room = False
        for fetched in self._queue:
            partition = fetched.partition
            state = self._state.partitions.get(partition)
            if (
                state is None
                or state.status is not PositionStatus.FETCHING
                or state.is_pending_revocation
                or fetched.next_offset != reached.get(partition, state.offset)
            ):
                dropped.append(fetched)
                continue
            reached[partition] = fetched.end_offset
            if state.is_paused or limit <= 0:
                continue
            found.append((fetched, state, state.seek_count))
            if fetched.is_clean and fetched.left_count <= limit:
                state.ahead_offset = fetched.end_offset
                has_room = True
            else:
                state.ahead_offset = -1
            limit -= max(1, fetched.left_count)
        for fetched in dropped:
            self._queue.remove(fetched)
        return found, has_room or bool(dropped)

    def _look_back(self, readable: list[Readable]) -> None:
        """Fetches continue at the present positions."""
        with self._state.lock:
            for _, state, _ in readable:
                state.ahead_offset = -1

    def _refuse(self, fetched: Fetched, error: KlammError) -> None:
        # A record that fails to deserialize stays until a seek; damaged data is fetched again.
        if not isinstance(error, RecordDeserializationError):
            with self._state.lock:
                self._remove(fetched)

    def _remove(self, fetched: Fetched) -> None:
        if fetched in self._queue:
            self._queue.remove(fetched)

    def give_back(self, chunks: list[Chunk], next_offsets: dict[TopicPartition, int]) -> None:
        """Put back records that were not returned; positions go back to the first of each partition.

        `next_offsets` are the positions after these records.
        """
        with self._state.lock:
            for index in range(len(chunks) - 1, -1, -1):
                chunk = chunks[index]
                state = self._state.partitions.get(chunk.partition)
                if state is None:
                    continue
                end_offset = next_offsets[chunk.partition]
                self._queue.appendleft(Fetched.of_records(chunk.partition, chunk, end_offset, self._settings))
                first_offset = chunk.records[0].offset
                next_offsets[chunk.partition] = state.offset = first_offset
        self.record_count -= sum([len(chunk.records) for chunk in chunks])
