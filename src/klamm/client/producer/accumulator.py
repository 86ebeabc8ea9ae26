"""Where records wait for their batch to be sent. Callers append, the client's thread drains."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator

from klamm.client.errors import BufferExhaustedError, IllegalStateError
from klamm.client.producer.batch import BATCH_OVERHEAD_BYTES, Batch
from klamm.client.producer.delivery import Delivery
from klamm.client.producer.settings import ProducerSettings
from klamm.clock import Clock
from klamm.protocol.types import TopicPartition


class Accumulator:
    """Batches by partition, oldest first, within `buffer.memory`. One lock, held shortly."""

    def __init__(self, settings: ProducerSettings, clock: Clock, wake: Callable[[], None]) -> None:
        self._settings = settings
        self._clock = clock
        self._wake = wake
        self.lock = threading.Condition()
        self._queues: dict[TopicPartition, deque[Batch]] = {}
        self._used_bytes = 0
        self._waiting = 0  # callers who wait for memory
        self._flushes = 0
        self._incomplete: set[Batch] = set()
        self.is_closed = False

    def append(
        self,
        partition: TopicPartition,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[tuple[str, bytes | None], ...],
        size_bytes: int,
        due_at_ms: int,
    ) -> tuple[Delivery, bool]:
        """Add a record, waiting for memory until `due_at_ms`; its future, and whether its batch is full."""
        with self.lock:
            self._reserve(size_bytes, due_at_ms)
            queue = self._queues.get(partition)
            if queue is None:
                queue = self._queues[partition] = deque()
            batch = queue[-1] if queue else None
            limit = self._settings.batch_size
            if batch is None or batch.is_closed or batch.size_bytes + size_bytes > limit:
                batch = self._open(partition, queue)
            delivery = batch.append(timestamp_ms, key, value, headers, size_bytes)
            is_full = batch.size_bytes >= limit
            # Linger: the first record starts the clock, a full batch ends it.
            needs_wake = is_full or len(batch.records) == 1
        if needs_wake:
            self._wake()
        return delivery, is_full

    def append_batch(self, batch: Batch, due_at_ms: int) -> None:
        """Add a batch that is closed already, waiting for memory until `due_at_ms`."""
        with self.lock:
            self._reserve(batch.size_bytes - BATCH_OVERHEAD_BYTES, due_at_ms)
            queue = self._queues.setdefault(batch.partition, deque())
            if queue:
                queue[-1].is_closed = True
            queue.append(batch)
            self._incomplete.add(batch)
        self._wake()

    def _open(self, partition: TopicPartition, queue: deque[Batch]) -> Batch:
        if queue:
            queue[-1].is_closed = True
        batch = Batch(partition, self._clock.now_ms())
        queue.append(batch)
        self._incomplete.add(batch)
        return batch

    def _reserve(self, size_bytes: int, due_at_ms: int) -> None:
        limit = self._settings.buffer_memory
        if self.is_closed:
            raise IllegalStateError("this producer is closed")
        if self._used_bytes + size_bytes <= limit:
            self._used_bytes += size_bytes
            return
        self._waiting += 1
        self._wake()
        try:
            while self._used_bytes + size_bytes > limit:
                left_ms = due_at_ms - self._clock.now_ms()
                if left_ms <= 0:
                    raise BufferExhaustedError(
                        f"buffer.memory of {limit} bytes stayed full for max.block.ms: "
                        "the broker is slower than the caller"
                    )
                self.lock.wait(left_ms / 1000)
                if self.is_closed:
                    raise IllegalStateError("this producer was closed while send() waited for memory")
            self._used_bytes += size_bytes
        finally:
            self._waiting -= 1

    @property
    def has_room(self) -> bool:
        """Whether a record of any allowed size would find memory at once."""
        needed = min(self._settings.max_request_size, self._settings.buffer_memory)
        return self._used_bytes + needed <= self._settings.buffer_memory

    def queued(self, topic: str) -> dict[int, int]:
        """How many batches wait, by partition of a topic."""
        with self.lock:
            return {key.partition: len(queue) for key, queue in self._queues.items() if key.topic == topic}

    # The methods below are the client thread's.

    def partitions(self) -> list[TopicPartition]:
        """Partitions with something to send."""
        with self.lock:
            return [key for key, queue in self._queues.items() if queue]

    def head(self, partition: TopicPartition) -> Batch | None:
        with self.lock:
            queue = self._queues.get(partition)
            return queue[0] if queue else None

    def ready_at_ms(self, partition: TopicPartition) -> int | None:
        """When the first batch of a partition may be sent; None when there is none."""
        with self.lock:
            queue = self._queues.get(partition)
            if not queue:
                return None
            batch = queue[0]
            if batch.was_sent:
                return batch.retry_at_ms
            is_full = len(queue) > 1 or batch.is_closed or batch.size_bytes >= self._settings.batch_size
            if is_full or self._flushes or self._waiting or self.is_closed:
                return 0
            return batch.created_at_ms + self._settings.linger_ms

    def take(self, partition: TopicPartition) -> Batch:
        """Remove the first batch of a partition, closed for good."""
        with self.lock:
            batch = self._queues[partition].popleft()
            batch.is_closed = True
            return batch

    def waiting_to_retry(self, partition: TopicPartition) -> list[Batch]:
        """Batches that were sent once and came back."""
        with self.lock:
            return [batch for batch in self._queues.get(partition, ()) if batch.was_sent]

    def put_back(self, batch: Batch) -> None:
        """Return a batch to its place: by sequence among those that were sent, before all others."""
        with self.lock:
            queue = self._queues.setdefault(batch.partition, deque())
            place = 0
            if batch.base_sequence >= 0:
                for place, other in enumerate(queue):  # noqa: B007  # the place found is what counts
                    if not other.was_sent or _before(batch.base_sequence, other.base_sequence):
                        break
                else:
                    place = len(queue)
            queue.insert(place, batch)

    def replace(self, whole: Batch, parts: list[Batch]) -> None:
        """Put the parts of a batch that was too large where it belongs."""
        with self.lock:
            self._incomplete.discard(whole)
            self._incomplete.update(parts)
            queue = self._queues.setdefault(whole.partition, deque())
            queue.extendleft(reversed(parts))

    def finished(self, batch: Batch) -> None:
        """A batch is settled: its memory is free."""
        with self.lock:
            self._incomplete.discard(batch)
            self._used_bytes -= batch.size_bytes - BATCH_OVERHEAD_BYTES
            if not self._queues.get(batch.partition):
                self._queues.pop(batch.partition, None)
            self.lock.notify_all()

    def expired(self, now_ms: int) -> Iterator[Batch]:
        """Take out queued batches whose delivery timeout has passed."""
        oldest_ms = now_ms - self._settings.delivery_timeout_ms
        for partition in self.partitions():
            while (batch := self.head(partition)) is not None and batch.created_at_ms <= oldest_ms:
                yield self.take(partition)

    def incomplete(self) -> list[Batch]:
        """Everything appended and not settled."""
        with self.lock:
            return list(self._incomplete)

    def begin_flush(self) -> list[Batch]:
        """From now on nothing lingers; what there is to wait for."""
        with self.lock:
            self._flushes += 1
            batches = list(self._incomplete)
        self._wake()
        return batches

    def end_flush(self) -> None:
        with self.lock:
            self._flushes -= 1

    def close(self) -> None:
        """No more records; those who wait for memory are told."""
        with self.lock:
            self.is_closed = True
            self.lock.notify_all()


def _before(sequence: int, other: int) -> bool:
    """Whether a sequence comes first, also around the wrap."""
    return ((other - sequence) & 0x7FFFFFFF) < 0x40000000
