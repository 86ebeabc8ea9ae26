"""The producer as a program sees it: `send` gives a future at once, a thread of its own does the rest."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from random import Random
from types import TracebackType
from typing import Any, Self

from klamm.client.errors import (
    DeliveryError,
    IllegalStateError,
    KlammTimeoutError,
    RecordTooLargeError,
    broker_error,
)
from klamm.client.net.cluster import TopicInfo
from klamm.client.producer.accumulator import Accumulator
from klamm.client.producer.batch import BATCH_OVERHEAD_BYTES, Batch, estimated_size
from klamm.client.producer.delivery import Delivery
from klamm.client.producer.partitioner import StickyPartitioner, partition_for_key
from klamm.client.producer.sender import Sender
from klamm.client.producer.settings import Serializer, parse
from klamm.client.runtime import ClientThread
from klamm.clock import Clock, SystemClock
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition

log = logging.getLogger(__name__)
_numbers = count(1)

Headers = Iterable[tuple[str, bytes | None]]


class Producer:
    """Sends records; settings by Kafka's names, as a dictionary or keywords.

    Keys and values are bytes, or text (sent as UTF-8), or whatever `key_serializer` and `value_serializer`
    take. `send` blocks only while metadata is missing or `buffer.memory` is full, `max.block.ms` at most.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        **settings: Any,
    ) -> None:
        parsed, self._settings = parse(config, settings)
        client_id = parsed.values.text("client.id") or f"klamm-producer-{next(_numbers)}"
        self._clock = clock or SystemClock()
        self._random = random or Random()
        self._thread = ClientThread(
            parsed.network(client_id),
            parsed.metadata(allow_auto_topic_creation=True),
            clock=self._clock,
            random=self._random,
            name=client_id,
        )
        core = self._thread.core
        self._accumulator = Accumulator(self._settings, self._clock, self._wake)
        self._sender = Sender(core, self._settings, self._accumulator)
        self._sticky = StickyPartitioner(
            self._settings.batch_size, is_adaptive=self._settings.is_adaptive, random=self._random
        )
        self._sticky_lock = threading.Lock()
        self._metadata_changed = threading.Condition()
        core.components.append(self._sender)
        core.metadata.listen(self._on_metadata)
        self._is_closed = False
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers | Mapping[str, bytes | None] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[Delivery], None] | None = None,
    ) -> Delivery:
        """Hand over one record; its future says where it went, or why it did not."""
        if self._is_closed:
            raise IllegalStateError("this producer is closed")
        self._thread.reactor.check_fork()
        if self._sender.fatal is not None:
            raise self._sender.fatal
        due_at_ms = self._clock.now_ms() + self._settings.max_block_ms
        info = self._topic(topic, partition, due_at_ms)
        raw_key = _serialized(key, self._settings.key_serializer, "key")
        raw_value = _serialized(value, self._settings.value_serializer, "value")
        pairs = tuple(headers.items() if isinstance(headers, Mapping) else headers) if headers else ()
        size_bytes = estimated_size(raw_key, raw_value, pairs)
        self._check_size(size_bytes)
        chosen, is_sticky = self._partition(info, raw_key, raw_value, partition)
        when_ms = self._clock.timestamp_ms() if timestamp_ms is None else timestamp_ms
        delivery, is_full = self._accumulator.append(
            TopicPartition(topic, chosen), when_ms, raw_key, raw_value, pairs, size_bytes, due_at_ms
        )
        if is_sticky:
            with self._sticky_lock:
                self._sticky.took(topic, chosen, size_bytes, is_batch_full=is_full)
        if on_delivery is not None:
            delivery.add_done_callback(on_delivery)
        return delivery

    produce = send

    def would_wait(self, topic: str, partition: int | None = None) -> bool:
        """Whether `send` would wait now, for metadata or for memory."""
        info = self._thread.core.metadata.cluster.topics.get(topic)
        is_known = info is not None and (partition is None or partition in info.partitions)
        return not is_known or not self._accumulator.has_room

    def _check_size(self, size_bytes: int) -> None:
        total = size_bytes + BATCH_OVERHEAD_BYTES
        for name, limit in (
            ("max.request.size", self._settings.max_request_size),
            ("buffer.memory", self._settings.buffer_memory),
        ):
            if total > limit:
                raise RecordTooLargeError(f"a record of {total} bytes is larger than {name}={limit}")

    def _partition(
        self, info: TopicInfo, key: bytes | None, value: bytes | None, given: int | None
    ) -> tuple[int, bool]:
        partitions = len(info.partitions)
        if given is not None:
            return given, False
        if self._settings.partitioner is not None:
            chosen = self._settings.partitioner(info.name, key, value, partitions)
            if not 0 <= chosen < partitions:
                raise ValueError(f"the partitioner chose {chosen} of {partitions} partitions")
            return chosen, False
        if key is not None and not self._settings.ignores_keys:
            return partition_for_key(key, partitions), False
        with self._sticky_lock:
            return self._sticky.choose(info, self._accumulator.queued(info.name)), True

    def _topic(self, name: str, partition: int | None, due_at_ms: int) -> TopicInfo:
        """The topic's metadata, waited for if need be."""
        info = self._thread.core.metadata.cluster.topics.get(name)
        if info is not None and (partition is None or partition in info.partitions):
            return info
        if not name:
            raise ValueError("a topic must have a name")
        if partition is not None and partition < 0:
            raise ValueError(f"partition {partition}: write 0 or more, or None")
        return self._wait_for_topic(name, partition, due_at_ms)

    def _wait_for_topic(self, name: str, partition: int | None, due_at_ms: int) -> TopicInfo:
        metadata = self._thread.core.metadata

        def ask() -> None:
            metadata.want([name])
            metadata.request_update()

        with self._metadata_changed:
            self._thread.ask(ask)
            while True:
                cluster = metadata.cluster
                info = cluster.topics.get(name)
                if info is not None and (partition is None or partition in info.partitions):
                    return info
                code = cluster.errors.get(name)
                if code in (ErrorCode.invalid_topic_exception, ErrorCode.topic_authorization_failed):
                    raise broker_error(code, f"topic {name}")
                left_ms = due_at_ms - self._clock.now_ms()
                if left_ms <= 0:
                    raise self._no_topic(info, name, partition)
                self._metadata_changed.wait(left_ms / 1000)

    def _no_topic(self, info: TopicInfo | None, name: str, partition: int | None) -> KlammTimeoutError:
        limit_ms = self._settings.max_block_ms
        if info is not None:
            return KlammTimeoutError(
                f"{name} has partitions 0 to {len(info.partitions) - 1}, no {partition}, "
                f"after max.block.ms={limit_ms}"
            )
        cause = self._thread.core.metadata.error
        code = self._thread.core.metadata.cluster.errors.get(name)
        reason = cause or (broker_error(code, name) if code else "no answer")
        return KlammTimeoutError(f"no metadata of topic {name} within max.block.ms={limit_ms}: {reason}")

    def _on_metadata(self, _cluster: object) -> None:
        with self._metadata_changed:
            self._metadata_changed.notify_all()

    def _wake(self) -> None:
        self._thread.reactor.submit(_nothing)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything sent before is settled.

        Raises DeliveryError if a record failed whose future nobody looked at, KlammTimeoutError when it
        takes too long.
        """
        if self._is_closed:
            raise IllegalStateError("this producer is closed")
        batches = self._accumulator.begin_flush()
        try:
            self._wait_for(batches, timeout)
        finally:
            self._accumulator.end_flush()
        failures = _unseen_failures(batches)
        if failures:
            raise DeliveryError(failures)

    def _wait_for(self, batches: list[Batch], timeout: float | None) -> None:
        due_at_ms = None if timeout is None else self._clock.now_ms() + timeout * 1000
        for batch in batches:
            left = None if due_at_ms is None else max(0.0, (due_at_ms - self._clock.now_ms()) / 1000)
            if not batch.wait(left):
                raise KlammTimeoutError(f"not everything was delivered within {timeout} s")

    def close(self, timeout: float | None = 30.0) -> None:
        """Deliver what is left, for at most `timeout` seconds, and stop; safe to call twice."""
        if self._is_closed:
            return
        self._is_closed = True
        batches = self._accumulator.begin_flush()
        self._accumulator.close()
        self._wake()
        on_own_thread = self._thread.reactor.is_own_thread()
        try:
            self._wait_for(batches, 0 if on_own_thread else timeout)
        except KlammTimeoutError:
            error = KlammTimeoutError("the producer was closed before this was delivered")
            if on_own_thread:
                self._sender.fail_all(error)
            else:
                self._thread.ask(lambda: self._sender.fail_all(error)).result()
        self._thread.stop()
        failures = _unseen_failures(batches)
        if failures:
            log.error("%d records were not delivered; the first: %s", len(failures), failures[0])


def _nothing() -> None:
    """Waking up is all."""


def _serialized(value: Any, serializer: Serializer | None, what: str) -> bytes | None:
    if serializer is not None:
        value = serializer(value)
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"a {what} is bytes, text or None, not {type(value).__name__}; or set {what}_serializer")


def _unseen_failures(batches: list[Batch]) -> list[Exception]:
    failures: list[Exception] = []
    for batch in batches:
        for index, delivery in enumerate(batch.deliveries):
            if not delivery.is_examined and batch.is_settled:
                error = batch.error_of(index)
                if error is not None:
                    failures.append(error)
    return failures
