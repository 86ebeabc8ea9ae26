"""confluent-kafka's classes on klamm's client: Consumer, Producer, TopicPartition, KafkaError."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from klamm import errors
from klamm.client.consumer.consumer import Consumer as OwnConsumer
from klamm.client.consumer.group.listener import CallbackListener
from klamm.client.consumer.records import ConsumerRecord
from klamm.client.message import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Message,
)
from klamm.client.producer.delivery import Delivery
from klamm.client.producer.delivery_callbacks import message_of
from klamm.client.producer.producer import Producer as OwnProducer
from klamm.compat.confluent_errors import KafkaError, KafkaException, raised_as_theirs
from klamm.compat.confluent_settings import own_settings
from klamm.net.cluster import TopicInfo
from klamm.protocol.types import TopicPartition as OwnPartition

__all__ = [
    "OFFSET_BEGINNING",
    "OFFSET_END",
    "OFFSET_INVALID",
    "OFFSET_STORED",
    "TIMESTAMP_CREATE_TIME",
    "TIMESTAMP_LOG_APPEND_TIME",
    "TIMESTAMP_NOT_AVAILABLE",
    "Consumer",
    "KafkaError",
    "KafkaException",
    "Message",
    "Producer",
    "TopicPartition",
]

OFFSET_BEGINNING: Final = -2
OFFSET_END: Final = -1
OFFSET_STORED: Final = -1000
OFFSET_INVALID: Final = -1001


class TopicPartition:
    """A partition, and an offset where one is meant."""

    def __init__(
        self,
        topic: str,
        partition: int = -1,
        offset: int = OFFSET_INVALID,
        metadata: str | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.metadata = metadata
        self.leader_epoch = leader_epoch
        self.error: KafkaError | None = None

    @property
    def own(self) -> OwnPartition:
        return OwnPartition(self.topic, self.partition)

    def _place(self) -> tuple[str, int]:
        return self.topic, self.partition

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicPartition) and self._place() == other._place()

    def __lt__(self, other: TopicPartition) -> bool:
        return self._place() < other._place()

    def __hash__(self) -> int:
        return hash(self._place())

    def __repr__(self) -> str:
        return f"TopicPartition{{topic={self.topic},partition={self.partition},offset={self.offset}}}"


class TopicMetadata:
    """One topic in `list_topics()`."""

    def __init__(self, info: TopicInfo) -> None:
        self.topic = info.name
        self.partitions = dict(info.partitions)
        self.error = None


class ClusterMetadata:
    """What `list_topics()` returns."""

    def __init__(self, topics: Mapping[str, TopicInfo]) -> None:
        self.topics = {name: TopicMetadata(info) for name, info in topics.items()}


def _message(record: ConsumerRecord[Any, Any]) -> Message:
    kind = TIMESTAMP_LOG_APPEND_TIME if record.timestamp_type else TIMESTAMP_CREATE_TIME
    return Message(
        record.topic,
        record.partition,
        record.offset,
        key=record.key,
        value=record.value,
        headers=record.headers,
        timestamp=(kind, record.timestamp_ms),
        leader_epoch=record.leader_epoch,
    )


class Consumer:
    """confluent-kafka's consumer: `poll` returns one message or None; errors come as messages."""

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Any) -> None:
        given = {**(config or {}), **settings}
        self._on_commit: Callable[..., Any] | None = given.pop("on_commit", None)
        self._consumer: OwnConsumer[Any, Any] = OwnConsumer(own_settings(given, is_consumer=True))

    # --- subscription -----------------------------------------------------------------------------------

    @raised_as_theirs
    def subscribe(
        self,
        topics: Iterable[str],
        on_assign: Callable[..., Any] | None = None,
        on_revoke: Callable[..., Any] | None = None,
        on_lost: Callable[..., Any] | None = None,
    ) -> None:
        def told(callback: Callable[..., Any] | None) -> Callable[[list[OwnPartition]], Any] | None:
            if callback is None:
                return None
            return lambda partitions: callback(self, [TopicPartition(*item) for item in partitions])

        self._consumer.subscribe(topics, CallbackListener(told(on_assign), told(on_revoke), told(on_lost)))

    @raised_as_theirs
    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions; in `on_assign`, begin at the offsets given."""
        wanted = list(partitions)
        if not self._consumer._operations.state.is_auto:
            self._consumer.assign([item.own for item in wanted])
        self._begin_at(wanted)

    @raised_as_theirs
    def incremental_assign(self, partitions: Iterable[TopicPartition]) -> None:
        wanted = list(partitions)
        if not self._consumer._operations.state.is_auto:
            self._consumer.incremental_assign([item.own for item in wanted])
        self._begin_at(wanted)

    @raised_as_theirs
    def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        if not self._consumer._operations.state.is_auto:
            self._consumer.incremental_unassign([item.own for item in partitions])

    def _begin_at(self, partitions: Iterable[TopicPartition]) -> None:
        for item in partitions:
            if item.offset == OFFSET_BEGINNING:
                self._consumer.seek_to_beginning(item.own)
            elif item.offset == OFFSET_END:
                self._consumer.seek_to_end(item.own)
            elif item.offset >= 0:
                self._consumer.seek(item.own, item.offset)

    @raised_as_theirs
    def unassign(self) -> None:
        if not self._consumer._operations.state.is_auto:
            self._consumer.unsubscribe()

    @raised_as_theirs
    def unsubscribe(self) -> None:
        self._consumer.unsubscribe()

    @raised_as_theirs
    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition(*item) for item in sorted(self._consumer.assignment())]

    # --- records ----------------------------------------------------------------------------------------

    def poll(self, timeout: float | None = None) -> Message | None:
        """The next message; None when none came in `timeout` seconds (None, -1: wait)."""
        try:
            record = self._consumer.getone(None if timeout is None or timeout < 0 else timeout)
        except errors.IllegalStateError as error:
            raise RuntimeError(str(error)) from error
        except errors.KlammError as error:
            return Message(None, None, None, error=KafkaError.of(error))
        return None if record is None else _message(record)

    @raised_as_theirs
    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        return [_message(record) for record in self._consumer.consume(num_messages, timeout)]

    # --- offsets ----------------------------------------------------------------------------------------

    @raised_as_theirs
    def commit(
        self,
        message: Message | None = None,
        offsets: Iterable[TopicPartition] | None = None,
        asynchronous: bool = True,
    ) -> list[TopicPartition] | None:
        to_commit = _after(message, offsets)
        if not asynchronous:
            self._consumer.commit(to_commit)
            return (
                [] if to_commit is None else [TopicPartition(*key, value) for key, value in to_commit.items()]
            )
        self._consumer.commit_async(to_commit, self._report_commit)
        return None

    def _report_commit(self, offsets: Mapping[OwnPartition, Any], error: errors.KlammError | None) -> None:
        if self._on_commit is not None:
            listed = [TopicPartition(*key, value.offset) for key, value in offsets.items()]
            self._on_commit(None if error is None else KafkaError.of(error), listed)

    @raised_as_theirs
    def store_offsets(
        self, message: Message | None = None, offsets: Iterable[TopicPartition] | None = None
    ) -> None:
        self._consumer.store_offsets(offsets=_after(message, offsets))

    @raised_as_theirs
    def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> list[TopicPartition]:
        wanted = list(partitions)
        found = self._consumer.committed([item.own for item in wanted], timeout)
        listed = []
        for item in wanted:
            entry = found[item.own]
            listed.append(
                TopicPartition(item.topic, item.partition)
                if entry is None
                else TopicPartition(*item.own, entry.offset, entry.metadata or None)
            )
        return listed

    @raised_as_theirs
    def position(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition(*item.own, self._consumer.position(item.own)) for item in partitions]

    @raised_as_theirs
    def seek(self, partition: TopicPartition) -> None:
        self._begin_at([partition])

    @raised_as_theirs
    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._consumer.pause(*[item.own for item in partitions])

    @raised_as_theirs
    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._consumer.resume(*[item.own for item in partitions])

    @raised_as_theirs
    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float | None = None, cached: bool = False
    ) -> tuple[int, int]:
        (low,) = self._consumer.beginning_offsets([partition.own], timeout).values()
        (high,) = self._consumer.end_offsets([partition.own], timeout).values()
        return low, high

    @raised_as_theirs
    def offsets_for_times(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> list[TopicPartition]:
        """Offsets by time; the time to look for is in the field `offset`."""
        wanted = {item.own: item.offset for item in partitions}
        found = self._consumer.offsets_for_times(wanted, timeout)
        return [
            TopicPartition(*key, OFFSET_END if item is None else item.offset) for key, item in found.items()
        ]

    @raised_as_theirs
    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        return ClusterMetadata(self._consumer.list_topics(topic, None if timeout < 0 else timeout))

    def consumer_group_metadata(self) -> Any:
        return self._consumer.group_metadata()

    def memberid(self) -> str:
        return self._consumer.health().member_id

    def close(self) -> None:
        self._consumer.close()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def _after(
    message: Message | None, offsets: Iterable[TopicPartition] | None
) -> dict[OwnPartition, int] | None:
    if message is not None:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if topic is None or partition is None or offset is None:
            raise ValueError("this message has no offset to commit")
        return {OwnPartition(topic, partition): offset + 1}
    return None if offsets is None else {item.own: item.offset for item in offsets}


class Producer:
    """confluent-kafka's producer. Callbacks need no `poll`; a full queue blocks instead of raising."""

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Any) -> None:
        self._producer = OwnProducer(own_settings({**(config or {}), **settings}, is_consumer=False))

    @raised_as_theirs
    def produce(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = -1,
        callback: Callable[..., Any] | None = None,
        on_delivery: Callable[..., Any] | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Send one record; `callback(error, message)` says what became of it."""
        report = callback or on_delivery
        sent = self._producer.produce(topic, value, key, partition, None, timestamp, headers)
        if report is not None:
            pairs = list(headers.items() if isinstance(headers, Mapping) else headers) if headers else None

            def settled(delivery: Delivery) -> None:
                failure = delivery.exception()
                error = None if failure is None else KafkaError.of(failure)
                report(error, message_of(delivery, error, _raw(key), _raw(value), pairs))

            sent.add_done_callback(settled)

    def poll(self, timeout: float | None = None) -> int:
        """Do nothing: callbacks run as records are delivered."""
        return 0

    def flush(self, timeout: float | None = None) -> int:
        """Wait for all records; how many are left when the time is up."""
        try:
            self._producer.flush(None if timeout is None or timeout < 0 else timeout)
        except (errors.KlammTimeoutError, errors.DeliveryError):
            return len(self._producer)  # failures are reported by callbacks
        return len(self._producer)

    @raised_as_theirs
    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        if in_queue:
            self._producer.purge()

    @raised_as_theirs
    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        return ClusterMetadata(self._producer.list_topics(topic, None if timeout < 0 else timeout))

    @raised_as_theirs
    def init_transactions(self, timeout: float | None = None) -> None:
        self._producer.init_transactions(timeout=timeout)

    @raised_as_theirs
    def begin_transaction(self) -> None:
        self._producer.begin_transaction()

    @raised_as_theirs
    def send_offsets_to_transaction(
        self, positions: Iterable[TopicPartition], group_metadata: Any, timeout: float | None = None
    ) -> None:
        offsets = {item.own: item.offset for item in positions if item.offset >= 0}
        self._producer.send_offsets_to_transaction(offsets, group_metadata, timeout)

    @raised_as_theirs
    def commit_transaction(self, timeout: float | None = None) -> None:
        self._producer.commit_transaction(timeout)

    @raised_as_theirs
    def abort_transaction(self, timeout: float | None = None) -> None:
        self._producer.abort_transaction(timeout)

    def __len__(self) -> int:
        return len(self._producer)

    def __bool__(self) -> bool:
        return True

    def __del__(self) -> None:
        producer = getattr(self, "_producer", None)
        if producer is not None:
            producer.finish(0)  # their programs do not close a producer: they flush it


def _raw(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value
