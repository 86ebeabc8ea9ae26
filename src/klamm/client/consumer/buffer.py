"""Fetched data between the client's thread, which brings it, and the caller's, which takes it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from klamm.client.consumer.fetched import Fetched
from klamm.client.consumer.records import Chunk
from klamm.client.consumer.settings import ConsumerSettings
from klamm.client.consumer.state import PartitionState, Status, SubscriptionState
from klamm.client.errors import KlammError, RecordDeserializationError
from klamm.protocol.types import TopicPartition


class Taken(NamedTuple):
    """What one look into the buffer gave."""

    chunks: list[Chunk]
    has_moved: bool  # some position went on, be it only past a marker


class FetchBuffer:
    """Fetches that wait, oldest first. A fetch is handed out only from the position it was made for."""

    def __init__(self, state: SubscriptionState, settings: ConsumerSettings) -> None:
        self._state = state
        self._settings = settings
        self._queue: deque[Fetched] = deque()
        self.record_count = 0  # handed out so far

    def add(self, fetched: Fetched) -> None:
        with self._state.lock:
            self._queue.append(fetched)

    def partitions(self) -> set[TopicPartition]:
        """The partitions that have something here. Call it with the lock held."""
        return {fetched.partition for fetched in self._queue}

    def clear(self) -> None:
        with self._state.lock:
            self._queue.clear()

    def __bool__(self) -> bool:
        return bool(self._queue)

    def take(self, limit: int, on_room: Callable[[], None]) -> Taken:
        """At most `limit` records. `on_room` is told when there is room for another fetch.

        An error is raised by the first call that has nothing to give before it. Decoding happens without the
        lock, and room is announced before the last of it: the next fetch is under way meanwhile.
        """
        chunks: list[Chunk] = []
        has_moved = False
        while limit > 0:
            with self._state.lock:
                found = self._next_readable(on_room)
                if found is None:
                    break
                fetched, state = found
                is_last_of_it = fetched.is_clean and fetched.left_count <= limit
                if is_last_of_it:
                    state.ahead_offset = fetched.end_offset
            if is_last_of_it:
                on_room()
            try:
                read = fetched.read(limit)
            except KlammError as error:
                state.ahead_offset = -1
                if chunks or has_moved:
                    break
                self._refuse(fetched, error)
                on_room()
                raise
            with self._state.lock:
                has_moved |= fetched.next_offset != state.offset
                state.offset = fetched.next_offset
                if fetched.leader_epoch >= 0:
                    state.leader_epoch = fetched.leader_epoch
                state.ahead_offset = -1
                if fetched.is_drained:
                    self._remove(fetched)
            if fetched.is_drained and not is_last_of_it:
                on_room()
            if not read and not fetched.is_drained:
                break  # past markers to something that cannot be read: the next call says so
            chunks += read
            limit -= sum([len(chunk.records) for chunk in read])
        self.record_count += sum([len(chunk.records) for chunk in chunks])
        return Taken(chunks, has_moved)

    def _next_readable(self, on_room: Callable[[], None]) -> tuple[Fetched, PartitionState] | None:
        """The oldest fetch that may be handed out; what went out of date on the way is dropped."""
        dropped: list[Fetched] = []
        found: tuple[Fetched, PartitionState] | None = None
        for fetched in self._queue:
            state = self._state.partitions.get(fetched.partition)
            if state is None or state.status is not Status.FETCHING or state.offset != fetched.next_offset:
                if state is not None and self._is_preceded(fetched, state):
                    continue
                dropped.append(fetched)
            elif state.is_pending_revocation:
                dropped.append(fetched)
            elif not state.is_paused:
                found = fetched, state
                break
        for fetched in dropped:
            self._queue.remove(fetched)
        if dropped:
            on_room()
        return found

    def _is_preceded(self, fetched: Fetched, state: PartitionState) -> bool:
        """Whether an older fetch of the partition leads up to this one."""
        for earlier in self._queue:
            if earlier is fetched:
                return False
            if earlier.partition == fetched.partition and earlier.next_offset == state.offset:
                return earlier.end_offset == fetched.next_offset
        return False

    def _refuse(self, fetched: Fetched, error: KlammError) -> None:
        # A record that does not deserialize stays until somebody seeks; damage is fetched again.
        if not isinstance(error, RecordDeserializationError):
            with self._state.lock:
                self._remove(fetched)

    def _remove(self, fetched: Fetched) -> None:
        if fetched in self._queue:
            self._queue.remove(fetched)

    def give_back(self, chunks: list[Chunk], next_offsets: dict[TopicPartition, int]) -> None:
        """Put records back that nobody has seen; positions return to the first of each partition.

        `next_offsets` are the positions that taking them had led to.
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
