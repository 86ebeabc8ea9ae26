"""What a poll gives: records, by partition and one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Final, Generic, NamedTuple

from klamm.client.consumer.settings import ConsumerSettings
from klamm.client.key_value_types import K, V
from klamm.client.serializers import WithTopic
from klamm.errors import RecordDeserializationError
from klamm.protocol.types import TopicPartition
from klamm.records.record import Record


class ConsumerRecord(NamedTuple, Generic[K, V]):
    """One record, with its topic, partition and offset."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int  # 0: the producer's clock, 1: the broker's
    key: K
    value: V
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def timestamp(self) -> int:
        """As `timestamp_ms`, under the name other clients use."""
        return self.timestamp_ms


class Chunk(NamedTuple):
    """Records of one partition and one batch, keys and values deserialized."""

    partition: TopicPartition
    records: Sequence[Record]
    leader_epoch: int
    timestamp_type: int


_OF_ONE_RECORD: Final = frozenset(
    {"error", "headers", "key", "offset", "partition", "timestamp", "topic", "value"}
)
_OF_A_DICTIONARY: Final = frozenset({"get", "items", "keys", "values"})


class Records(Generic[K, V]):
    """The records of one poll. Iterating creates each record on demand; `chunks` has them as decoded."""

    __slots__ = ("chunks",)

    def __init__(self, chunks: Sequence[Chunk] = ()) -> None:
        self.chunks = chunks

    def __len__(self) -> int:
        return sum([len(chunk.records) for chunk in self.chunks])

    def __bool__(self) -> bool:
        return bool(self.chunks)

    def __repr__(self) -> str:
        return f"<{len(self)} records of {', '.join(map(str, self.partitions())) or 'no partition'}>"

    def __getattr__(self, name: str) -> Any:
        if name in _OF_ONE_RECORD:
            raise AttributeError(
                f"poll() returns several records, which have no {name}: write `for record in "
                f"consumer.poll(1.0)` and record.{'value' if name == 'error' else name}, or getone() for one "
                "record; klamm.compat.confluent_kafka.Consumer has confluent-kafka's poll()"
            )
        if name in _OF_A_DICTIONARY:
            raise AttributeError(
                f"poll() returns records, which have no {name}(): write consumer.poll(1.0).by_partition()"
                f".{name}(), or getmany(timeout_ms=1000) for a dictionary"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def partitions(self) -> list[TopicPartition]:
        """The partitions that have records here, in order of their first."""
        return list(dict.fromkeys(chunk.partition for chunk in self.chunks))

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        for chunk in self.chunks:
            yield from consumer_records(chunk)

    def of(self, partition: TopicPartition) -> list[ConsumerRecord[K, V]]:
        """The records of one partition."""
        return [
            record
            for chunk in self.chunks
            if chunk.partition == partition
            for record in consumer_records(chunk)
        ]

    def next_offsets(self) -> dict[TopicPartition, int]:
        """Of each partition here, the offset behind its last record: what to commit after processing."""
        return {chunk.partition: chunk.records[-1].offset + 1 for chunk in self.chunks}

    def by_partition(self) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """All records, in a list per partition."""
        return {partition: self.of(partition) for partition in self.partitions()}


def consumer_records(chunk: Chunk) -> Iterator[ConsumerRecord]:
    """The records of a chunk, each with its topic, partition and offset."""
    (topic, number), records, epoch, kind = chunk
    make = tuple.__new__  # calling the class would cost as much again
    return map(
        make,
        repeat(ConsumerRecord),
        [
            (topic, number, offset, timestamp_ms, kind, key, value, headers, epoch)
            for offset, timestamp_ms, key, value, headers in records
        ],
    )


def _of_topic(deserializer: Any, topic: str) -> Any:
    """A deserializer of bytes alone, for one topic."""
    return partial(deserializer.function, topic) if isinstance(deserializer, WithTopic) else deserializer


def deserialized(
    partition: TopicPartition, records: Sequence[Record], settings: ConsumerSettings
) -> tuple[Sequence[Record], RecordDeserializationError | None]:
    """The deserialized records up to the first that fails, and its error.

    With `on_deserialize_error="skip"` or a callable, failed records are skipped instead.
    """
    if settings.key_deserializer is None and settings.value_deserializer is None:
        return records, None
    key_of = _of_topic(settings.key_deserializer, partition.topic)
    value_of = _of_topic(settings.value_deserializer, partition.topic)
    kept: list[Record] = []
    for record in records:
        offset, timestamp_ms, key, value, headers = record
        try:
            made = Record(
                offset,
                timestamp_ms,
                key if key_of is None else key_of(key),
                value if value_of is None else value_of(value),
                headers,
            )
        except Exception as cause:  # whatever a user's function raises
            error = RecordDeserializationError(partition, offset, key=key, value=value, headers=headers)
            error.__cause__ = cause
            handler = settings.on_deserialize_error
            if handler == "raise":
                return kept, error
            if callable(handler):
                handler(error)
        else:
            kept.append(made)
    return kept, None
