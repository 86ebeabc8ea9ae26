"""kafka-python's records, which know how long their keys and values were as bytes."""

from __future__ import annotations

from functools import wraps
from typing import Any, NamedTuple

from klamm.client.consumer.records import ConsumerRecord as OwnRecord
from klamm.compat.kafka.serializer import own_serializer
from klamm.protocol.types import TopicPartition


class ConsumerRecord(NamedTuple):
    """A record; the size of what it does not have is -1, and records have no checksum any more."""

    topic: str
    partition: int
    leader_epoch: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    headers: list[tuple[str, bytes | None]]
    checksum: None
    serialized_key_size: int
    serialized_value_size: int
    serialized_header_size: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def timestamp_ms(self) -> int:
        return self.timestamp


class _Made(NamedTuple):
    """What a deserializer made, and of how many bytes."""

    item: Any
    size: int


class _Measuring:
    """A deserializer object of klamm's kind."""

    def __init__(self, own: Any) -> None:
        self._own = own
        self.serialize = own.serialize

    def deserialize(self, topic: str, data: bytes) -> _Made:
        return _Made(self._own.deserialize(topic, data), len(data))


def measuring(given: Any) -> Any:
    """A program's deserializer for klamm's client, which hands on the size of the bytes, too.

    One that klamm knows by name is called by klamm itself: what it makes has no size.
    """
    own = own_serializer(given, "deserialize")
    if hasattr(own, "deserialize"):
        return _Measuring(own)
    if not callable(own):
        return own

    @wraps(own)
    def measured(data: bytes | None) -> _Made:
        return _Made(own(data), _size(data))

    return measured


def record_of(record: OwnRecord[Any, Any]) -> ConsumerRecord:
    """Theirs, of klamm's."""
    key, key_size = _measured(record.key)
    value, value_size = _measured(record.value)
    headers = list(record.headers)
    return ConsumerRecord(
        record.topic,
        record.partition,
        record.leader_epoch,
        record.offset,
        record.timestamp_ms,
        record.timestamp_type,
        key,
        value,
        headers,
        None,
        key_size,
        value_size,
        sum(len(name.encode()) + len(data or b"") for name, data in headers) if headers else -1,
    )


def _measured(item: Any) -> tuple[Any, int]:
    return item if isinstance(item, _Made) else (item, _size(item))


def _size(data: Any) -> int:
    return len(data) if isinstance(data, bytes | bytearray | memoryview) else -1
