"""Where records wait for their batch to be sent. Callers append, the client's thread drains."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Final

from klamm.client.producer.batch import BATCH_OVERHEAD_BYTES, Batch, Content, estimated_size
from klamm.client.producer.delivery import Delivery
from klamm.client.producer.parked import UNPLACED, ParkedRecord
from klamm.client.producer.partitioner import StickyPartitioner
from klamm.client.producer.settings import ProducerSettings
from klamm.clock import Clock, condition_on, patience_of
from klamm.errors import (
    BufferExhaustedError,
    IllegalStateError,
    KlammError,
    RecordTooLargeError,
    broker_error,
)
from klamm.net.cluster import TopicInfo
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition
from klamm.records.core import COMPILED, OpenBatches

AppendToOpen = Callable[[str | tuple[str, int], int, bytes | None, bytes | None], Delivery | None]

Choose = Callable[[TopicInfo, bytes | None, bytes | None], int | None]

NOW: Final = -1  # in place of an instant: do not wait for memory, refuse
IN_ANY_CASE: Final = -2  # do not wait for memory, take it
KEPT_FAILURES: Final = 1000  # batches that failed before a flush


class Accumulator:
    """Batches by partition, oldest first, within `buffer.memory`. One lock, held shortly.

    Most records fit into an open batch: that path is short, and without the lock on the compiled core. Memory
    is reserved when a batch is opened and what it did not need is given back when it is closed, so a record
    need not be counted.
    """

    def __init__(
        self, settings: ProducerSettings, clock: Clock, wake: Callable[[], None], sticky: StickyPartitioner
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._patience = patience_of(clock)
        self._wake = wake
        self._sticky = sticky
        self._limit_bytes = min(settings.batch_size, settings.buffer_memory, settings.max_request_size)
        self._lock = threading.Lock()
        self._memory_came = condition_on(clock, self._lock)
        self._new_event: Callable[[], threading.Event] = getattr(clock, "new_event", threading.Event)
        self.is_own_thread: Callable[[], bool] = lambda: False  # of the client: callbacks run there
        self._queues: dict[TopicPartition, deque[Batch]] = {}
        self._open: OpenBatches[Batch, Delivery] = OpenBatches(Delivery)  # by topic and partition
        self._stays: OpenBatches[Batch, Delivery] = OpenBatches(
            Delivery
        )  # of records without a key, by topic
        # Most records end here: added to an open batch, if there is one with room. The names are as above.
        self.append_keyless = self._stays.append if COMPILED else self._locked(self._stays.append)
        self.append_keyed = self._open.append if COMPILED else self._locked(self._open.append)
        self._used_bytes = 0
        largest = min(max(settings.max_request_size, self._limit_bytes), settings.buffer_memory)
        self._roomy_bytes = settings.buffer_memory - largest  # with no more in use, any record finds room
        self._waiting = 0  # callers that wait for memory
        self._flushes = 0
        self._incomplete: dict[Batch, None] = {}  # oldest first
        self.parked: set[str] = set()  # topics with records that have no partition yet
        self._failed: deque[Batch] = deque()
        self._dropped_failures: Counter[str] = Counter()  # records of failed batches not kept, by topic
        self._refusal: Exception | None = None  # why no batch is opened any more
        self.is_closed = False

    def _locked(self, append: AppendToOpen) -> AppendToOpen:
        def locked(
            name: str | tuple[str, int], timestamp_ms: int, key: bytes | None, value: bytes | None
        ) -> Delivery | None:
            with self._lock:
                return append(name, timestamp_ms, key, value)

        return locked

    def append(
        self,
        topic: TopicInfo,
        partition: int | None,
        record: Content,
        due_at_ms: int | None = None,
    ) -> Delivery:
        """Add a record, waiting for memory until `due_at_ms` (`max.block.ms` from now); its future."""
        with self._lock:
            return self._add(topic, partition, record, due_at_ms)

    def _add(
        self, topic: TopicInfo, partition: int | None, record: Content, due_at_ms: int | None
    ) -> Delivery:
        name = topic.name
        batch = self._stays.get(name) if partition is None else self._open.get((name, partition))
        if batch is not None:
            index = batch.builder.append(*record)
            if index >= 0:
                return Delivery(batch, index)
        is_keyless = partition is None
        if partition is None:
            partition = self._move(topic)
            batch = self._open.get((name, partition))
            if batch is not None:  # records with keys have opened one there
                index = batch.builder.append(*record)
                if index >= 0:
                    self._stays[name] = batch
                    return Delivery(batch, index)
        batch = self._open_batch(TopicPartition(name, partition), estimated_size(*record[1:]), due_at_ms)
        try:
            index = batch.builder.append(*record)
        except BaseException:
            self._abandon(batch)  # a header of the wrong kind; an empty batch must not be sent
            raise
        # Not before: a record that another thread adds without the lock might take the room of this one.
        self._open[batch.partition] = batch
        if is_keyless:
            self._stays[name] = batch
        # Linger: the first record of a batch starts the clock, and ends it for the batch before.
        self._wake()
        return Delivery(batch, index)

    def park(
        self,
        topic: str,
        partition: int | None,
        record: Content,
    ) -> Delivery:
        """Add a record of a topic that is not known yet, without waiting; `place` gives it a partition."""
        size_bytes = estimated_size(*record[1:])
        with self._lock:
            self.check_size(size_bytes)
            self._reserve(size_bytes, NOW)
            batch = ParkedRecord(topic, partition, self._clock.now_ms(), size_bytes)
            batch.reserved_bytes = size_bytes
            batch.wait_with(self._event_to_wait_for)
            try:
                batch.builder.append(*record)
            except BaseException:
                self._give_back(size_bytes)
                raise
            self._queues.setdefault(batch.partition, deque()).append(batch)
            self._incomplete[batch] = None
            self.parked.add(topic)
        self._wake()
        return Delivery(batch, 0)

    def place(self, topic: TopicInfo, choose: Choose) -> list[tuple[ParkedRecord, Delivery | Exception]]:
        """Give the parked records of a topic their partitions, in order: the future of each, or its error."""
        queue = self._queues.get(TopicPartition(topic.name, UNPLACED))
        outcomes: list[tuple[ParkedRecord, Delivery | Exception]] = []
        while queue:
            chosen = []
            for batch in list(queue):  # a prefix: only this thread takes records away
                assert isinstance(batch, ParkedRecord)
                chosen.append(
                    (batch, _chosen(topic, batch, choose))
                )  # the program's code: not under the lock
            with self._lock:
                for batch, partition in chosen:
                    queue.popleft()
                    outcomes.append((batch, self._placed(topic, batch, partition)))
                if not queue:  # in the same turn: a caller that finds it empty adds behind what was parked
                    self.parked.discard(topic.name)
        return outcomes

    def _placed(
        self, topic: TopicInfo, batch: ParkedRecord, partition: int | Exception | None
    ) -> Delivery | Exception:
        if isinstance(partition, Exception):
            return partition
        batch.is_placed = True
        # Its memory may exceed the limit by a batch of each partition: the client's thread cannot wait.
        self._give_back(batch.reserved_bytes)
        batch.reserved_bytes = 0
        try:
            delivery = self._add(topic, partition, batch.content(), IN_ANY_CASE)
        except KlammError as error:  # why no batch is opened any more
            return error
        # Time-outs count from when the program sent the oldest record.
        delivery.batch.created_at_ms = min(delivery.batch.created_at_ms, batch.created_at_ms)
        return delivery

    def _move(self, topic: TopicInfo) -> int:
        """Where records without a key go next: the same partition, until it had its share."""
        stay = self._stays.pop(topic.name)
        if stay is not None:
            # Once closed, its reservation is its size; its bytes may be released already.
            size_bytes = stay.reserved_bytes if stay.is_closed else stay.size_bytes
            self._sticky.took(topic.name, stay.partition.partition, size_bytes)
        return self._sticky.choose(topic, lambda: self._queued(topic.name))

    def _open_batch(self, partition: TopicPartition, size_bytes: int, due_at_ms: int | None) -> Batch:
        """An empty batch for the record, which must be its first; closes the previous one."""
        self.check_size(size_bytes)
        reserved_bytes = max(self._limit_bytes, size_bytes + BATCH_OVERHEAD_BYTES)
        self._reserve(reserved_bytes, due_at_ms)
        self._close_open(partition)
        batch = Batch(partition, self._clock.now_ms(), self._limit_bytes)
        batch.wait_with(self._event_to_wait_for)
        batch.reserved_bytes = reserved_bytes
        self._queues.setdefault(partition, deque()).append(batch)
        self._incomplete[batch] = None
        return batch

    def _abandon(self, batch: Batch) -> None:
        self._queues[batch.partition].remove(batch)
        del self._incomplete[batch]
        self._give_back(batch.reserved_bytes)

    def _close_open(self, partition: TopicPartition) -> None:
        """Close the open batch of a partition, and release the memory it does not need."""
        batch = self._open.pop(partition)
        if batch is not None:
            batch.close()  # before its size is read: records are added without the lock
            self._give_back(batch.reserved_bytes - batch.size_bytes)
            batch.reserved_bytes = batch.size_bytes

    def _give_back(self, size_bytes: int) -> None:
        self._used_bytes -= size_bytes
        if self._waiting:
            self._memory_came.notify_all()

    def append_batch(self, batch: Batch, due_at_ms: int) -> None:
        """Add a batch that is closed already, waiting for memory until `due_at_ms`."""
        with self._lock:
            self._reserve(batch.size_bytes, due_at_ms)
            batch.reserved_bytes = batch.size_bytes
            self._close_open(batch.partition)
            self._queues.setdefault(batch.partition, deque()).append(batch)
            self._incomplete[batch] = None
        self._wake()

    def check_size(self, size_bytes: int) -> None:
        """Refuse a record that no batch could take."""
        total = size_bytes + BATCH_OVERHEAD_BYTES
        for name, limit in (
            ("max.request.size", self._settings.max_request_size),
            ("buffer.memory", self._settings.buffer_memory),
        ):
            if total > limit:
                raise RecordTooLargeError(f"a record of {total} bytes is larger than {name}={limit}")

    def _event_to_wait_for(self) -> threading.Event:
        """Of a record; refused in a callback, which would keep the client from delivering it."""
        if self.is_own_thread():
            raise IllegalStateError(
                "waiting for a record in a callback would wait for ever: give it a callback of its own"
            )
        return self._new_event()

    def _reserve(self, size_bytes: int, due_at_ms: int | None) -> None:
        limit = self._settings.buffer_memory
        if self.is_closed and due_at_ms != IN_ANY_CASE:  # what was parked before is still placed
            raise IllegalStateError("this producer is closed")
        if self._refusal is not None:
            raise self._refusal
        if self._used_bytes + size_bytes <= limit or due_at_ms == IN_ANY_CASE:
            self._used_bytes += size_bytes
            return
        if due_at_ms == NOW or self.is_own_thread():
            raise BufferExhaustedError(
                f"buffer.memory of {limit} bytes is full: send again later, or flush first"
            )
        if due_at_ms is None:
            due_at_ms = self._patience.now_ms() + self._settings.max_block_ms
        self._waiting += 1
        self._wake()
        try:
            while self._used_bytes + size_bytes > limit:
                left_ms = due_at_ms - self._patience.now_ms()
                if left_ms <= 0:
                    raise BufferExhaustedError(
                        f"buffer.memory of {limit} bytes stayed full for max.block.ms: "
                        "the broker is slower than the caller"
                    )
                self._memory_came.wait(left_ms / 1000)
                if self.is_closed:
                    raise IllegalStateError("this producer was closed while send() waited for memory")
                if self._refusal is not None:
                    raise self._refusal
            self._used_bytes += size_bytes
        finally:
            self._waiting -= 1

    @property
    def record_count(self) -> int:
        """How many records are not settled yet, or have callbacks that have not run yet."""
        with self._lock:
            return sum(batch.record_count for batch in self._incomplete if not batch.is_placed)

    @property
    def used_bytes(self) -> int:
        """How much of `buffer.memory` is in use."""
        return self._used_bytes

    @property
    def has_room(self) -> bool:
        """Whether a record of any allowed size would find memory at once."""
        return self._used_bytes <= self._roomy_bytes

    def _queued(self, topic: str) -> dict[int, int]:
        """How many batches wait, by partition of a topic."""
        return {
            key.partition: len(queue)
            for key, queue in self._queues.items()
            if key.topic == topic and key.partition != UNPLACED
        }

    # The methods below are the client thread's.

    def partitions(self) -> list[TopicPartition]:
        """Partitions with something to send."""
        with self._lock:
            return [key for key, queue in self._queues.items() if queue]

    def head(self, partition: TopicPartition) -> Batch | None:
        with self._lock:
            queue = self._queues.get(partition)
            return queue[0] if queue else None

    def ready_at_ms(self, partition: TopicPartition) -> int | None:
        """When the first batch of a partition may be sent; None when there is none."""
        with self._lock:
            queue = self._queues.get(partition)
            if not queue:
                return None
            if partition.partition == UNPLACED:
                return 0  # its metadata is asked for at once
            batch = queue[0]
            if batch.was_sent:
                return batch.retry_at_ms
            is_full = len(queue) > 1 or batch.is_closed or batch.size_bytes >= self._settings.batch_size
            if is_full or self._flushes or self._waiting or self.is_closed:
                return 0
            return batch.created_at_ms + self._settings.linger_ms

    def close_head(self, partition: TopicPartition) -> None:
        """Close the first batch of a partition, so that its records can be counted."""
        with self._lock:
            if self._open.get(partition) is self._queues[partition][0]:
                self._close_open(partition)

    def take(self, partition: TopicPartition) -> Batch:
        """Remove the first batch of a partition, closed for good."""
        self.close_head(partition)
        with self._lock:
            queue = self._queues[partition]
            taken = queue.popleft()
            if partition.partition == UNPLACED and not queue:
                self.parked.discard(partition.topic)
            return taken

    def waiting_to_retry(self, partition: TopicPartition) -> list[Batch]:
        """Batches to be sent again."""
        with self._lock:
            return [batch for batch in self._queues.get(partition, ()) if batch.was_sent]

    def put_back(self, batch: Batch) -> None:
        """Requeue a batch: in sequence order among those already sent, before all others."""
        with self._lock:
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
        """Requeue the parts of a batch that was too large."""
        with self._lock:
            del self._incomplete[whole]
            self._give_back(whole.reserved_bytes)
            for part in parts:
                self._incomplete[part] = None
                part.reserved_bytes = part.size_bytes
                self._used_bytes += part.reserved_bytes
            queue = self._queues.setdefault(whole.partition, deque())
            queue.extendleft(reversed(parts))

    def release(self, batch: Batch) -> None:
        """A batch is settled: its memory is free, also for what its callbacks send."""
        with self._lock:
            self._give_back(batch.reserved_bytes)
            if not self._queues.get(batch.partition):
                self._queues.pop(batch.partition, None)

    def finished(self, batch: Batch) -> None:
        """The callbacks of a batch have run: a flush need not wait for it any more."""
        with self._lock:
            self._incomplete.pop(batch, None)
            if batch.error is not None:
                self._keep_failed(batch)

    def _keep_failed(self, batch: Batch) -> None:
        self._failed.append(batch)
        if len(self._failed) > KEPT_FAILURES:
            oldest = self._failed.popleft()
            self._dropped_failures[oldest.partition.topic] += len(oldest.unseen_failures())

    def take_dropped_failures(self) -> Counter[str]:
        """How many records, by topic, failed in batches that were not kept for the next flush."""
        with self._lock:
            dropped, self._dropped_failures = self._dropped_failures, Counter()
            return dropped

    def expired(self, now_ms: int) -> Iterator[Batch]:
        """Take out queued batches whose delivery timeout has passed."""
        oldest_ms = now_ms - self._settings.delivery_timeout_ms
        for partition in self.partitions():
            while (batch := self.head(partition)) is not None and batch.created_at_ms <= oldest_ms:
                yield self.take(partition)

    def oldest_ms(self) -> int | None:
        """When the oldest batch that is not settled was opened."""
        with self._lock:
            oldest = next(iter(self._incomplete), None)
            return None if oldest is None else oldest.created_at_ms

    def begin_flush(self) -> list[Batch]:
        """From now on nothing lingers; what there is to wait for, and what failed since the last flush."""
        with self._lock:
            self._flushes += 1
            batches = [*self._failed, *self._incomplete]
            self._failed.clear()
        self._wake()
        return batches

    def end_flush(self, batches: list[Batch]) -> None:
        """Drop failures that a flush has reported."""
        with self._lock:
            self._flushes -= 1
            if self._failed:
                told = set(batches)
                kept = [batch for batch in self._failed if batch not in told]
                self._failed.clear()
                self._failed.extend(kept)

    def refuse(self, error: Exception) -> None:
        """Open no more batches; callers that wait for memory get the error."""
        with self._lock:
            self._refusal = error
            self._memory_came.notify_all()

    def close(self) -> None:
        """Accept no more records; wake up callers that wait for memory."""
        with self._lock:
            self.is_closed = True
            self._memory_came.notify_all()


def _before(sequence: int, other: int) -> bool:
    """Whether a sequence precedes another, with wrap-around."""
    return ((other - sequence) & 0x7FFFFFFF) < 0x40000000


def _chosen(topic: TopicInfo, batch: ParkedRecord, choose: Choose) -> int | Exception | None:
    if batch.asked_partition is not None:
        if batch.asked_partition in topic.partitions:
            return batch.asked_partition
        hint = f"{topic.name} has partitions 0 to {len(topic.partitions) - 1}"
        asked = TopicPartition(topic.name, batch.asked_partition)
        return broker_error(ErrorCode.unknown_topic_or_partition, f"1 record for {asked}", hint)
    _, key, value, _ = batch.content()
    try:
        return choose(topic, key, value)
    except BaseException as error:  # on the client's thread, which SystemExit would end
        return error if isinstance(error, Exception) else RuntimeError(f"the partitioner raised {error!r}")
