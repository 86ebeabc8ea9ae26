"""Records of `produce()` whose topic is not known yet, or that find no memory: `produce()` does not wait.

They go to klamm's producer when it can take them at once, on the client's thread and in their order. One that
waits too long, or whose topic or partition does not exist, is reported by its callback.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from klamm.client.producer.delivery import Delivery
from klamm.client.producer.producer import Producer
from klamm.client.topic_names import check_topic_name
from klamm.compat.confluent_kafka.error import KafkaError
from klamm.compat.confluent_kafka.error_codes import CODES
from klamm.errors import AuthenticationError, InvalidTopicError, error_name
from klamm.protocol.errors import ErrorCode

MEMORY_RETRY_MS: Final = 5  # memory is freed by answers, after which the components are called anyway
OVERHEAD_BYTES: Final = 64  # of a record that waits


@dataclass(slots=True)
class UnsentRecord:
    """One record, and what to do when it is handed over or given up."""

    topic: str
    value: Any
    key: Any
    headers: Any
    partition: int | None
    timestamp_ms: int | None
    since_ms: int
    sent: Callable[[Delivery], None]
    failed: Callable[[KafkaError], None]

    @property
    def size_bytes(self) -> int:
        return OVERHEAD_BYTES + len(self.value or b"") + len(self.key or b"")


class Unsent:
    """A component of the client's core. Its lock is held shortly, by callers and the client's thread."""

    def __init__(self, producer: Producer, timeout_ms: int, propagation_ms: int) -> None:
        self._producer = producer
        self._core = producer._thread.core
        self._timeout_ms = timeout_ms  # 0: never
        self._propagation_ms = propagation_ms
        self._lock = threading.Lock()
        self._topics: dict[str, deque[UnsentRecord]] = {}
        self.count = 0
        self.size_bytes = 0

    def has(self, topic: str) -> bool:
        return topic in self._topics

    def add(self, record: UnsentRecord) -> None:
        with self._lock:
            self._topics.setdefault(record.topic, deque()).append(record)
            self.count += 1
            self.size_bytes += record.size_bytes
        self._producer._wake()

    def tick(self, now_ms: int) -> int | None:
        """Hand over what can be sent, give up what cannot; when to be called again."""
        if not self._topics:
            return None
        dues = [self._of_topic(topic, now_ms) for topic in list(self._topics)]
        return min((due for due in dues if due is not None), default=None)

    def _of_topic(self, topic: str, now_ms: int) -> int | None:
        while (record := self._first(topic)) is not None:
            late_at_ms = record.since_ms + self._timeout_ms if self._timeout_ms else None
            if not self._producer.would_wait(topic, record.partition):
                self._take(topic)
                self._hand_over(record)
                continue
            error, due_ms = self._why_not(record, now_ms, late_at_ms)
            if error is None:
                return due_ms
            self._take(topic)
            record.failed(error)
        return None

    def _first(self, topic: str) -> UnsentRecord | None:
        with self._lock:
            queue = self._topics.get(topic)
            return queue[0] if queue else None

    def _take(self, topic: str) -> None:
        with self._lock:
            queue = self._topics[topic]
            record = queue.popleft()
            self.count -= 1
            self.size_bytes -= record.size_bytes
            if not queue:
                del self._topics[topic]

    def _hand_over(self, record: UnsentRecord) -> None:
        try:
            delivery = self._producer.send(
                record.topic, record.value, record.key, record.headers, record.partition, record.timestamp_ms
            )
        except Exception as error:  # as of a serializer: it ends this record, and not the client
            record.failed(KafkaError.of_delivery(error))
        else:
            record.sent(delivery)

    def _why_not(
        self, record: UnsentRecord, now_ms: int, late_at_ms: int | None
    ) -> tuple[KafkaError | None, int | None]:
        """Why a record is given up; or when to look at it again."""
        topic, metadata = record.topic, self._core.metadata
        try:
            check_topic_name(topic)  # one that cannot be encoded would keep all others from being asked for
        except InvalidTopicError as error:
            return KafkaError.of_delivery(error), None
        if self._producer._sender.fatal is not None:
            return KafkaError.of_delivery(self._producer._sender.fatal), None
        if isinstance(metadata.error, AuthenticationError):
            return KafkaError.of_delivery(metadata.error), None
        info = metadata.cluster.topics.get(topic)
        code = metadata.cluster.errors.get(topic, 0)
        if info is not None and record.partition is not None and record.partition not in info.partitions:
            text = f"{topic} has {len(info.partitions)} partitions, no {record.partition}"
            return KafkaError(CODES["_UNKNOWN_PARTITION"], text), None
        if code in (ErrorCode.invalid_topic_exception, ErrorCode.topic_authorization_failed):
            return KafkaError(code, f"topic {topic}: {error_name(code)}"), None
        if late_at_ms is not None and now_ms >= late_at_ms:
            text = f"not sent within message.timeout.ms={self._timeout_ms}: "
            return KafkaError(CODES["_MSG_TIMED_OUT"], text + str(metadata.error or "no metadata")), None
        if info is not None:  # no memory
            return None, now_ms + MEMORY_RETRY_MS
        missing_at_ms = record.since_ms + self._propagation_ms
        if code == ErrorCode.unknown_topic_or_partition and now_ms >= missing_at_ms:
            return KafkaError(CODES["_UNKNOWN_TOPIC"], f"topic {topic} does not exist"), None
        metadata.want([topic])
        dues = [due for due in (late_at_ms, missing_at_ms) if due is not None and due > now_ms]
        return None, min(dues, default=None)

    def purge(self) -> None:
        """Give up all records."""
        with self._lock:
            records = [record for queue in self._topics.values() for record in queue]
            self._topics.clear()
            self.count = self.size_bytes = 0
        for record in records:
            record.failed(KafkaError(CODES["_PURGE_QUEUE"], "the record was purged before it was sent"))
