"""What a poll gives: records, by partition and one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from klamm.client.consumer.settings import ConsumerSettings
from klamm.client.errors import RecordDeserializationError
from klamm.protocol.types import TopicPartition
from klamm.records.record import Record

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1


class ConsumerRecord(NamedTuple):
    """One record, with where it came from."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class Chunk(NamedTuple):
    """Records of one partition and one batch, as they were decoded."""

    partition: TopicPartition
    records: Sequence[Record]
    leader_epoch: int
    timestamp_type: int


class Records:
    """The records of one poll. Iterating makes each record as it comes; `chunks` has them as decoded."""

    __slots__ = ("_settings", "chunks")

    def __init__(self, chunks: Sequence[Chunk], settings: ConsumerSettings) -> None:
        self.chunks = chunks
        self._settings = settings

    def __len__(self) -> int:
        return sum(len(chunk.records) for chunk in self.chunks)

    def __bool__(self) -> bool:
        return bool(self.chunks)

    def partitions(self) -> list[TopicPartition]:
        """The partitions that have records here, in order of their first."""
        return list(dict.fromkeys(chunk.partition for chunk in self.chunks))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        for chunk in self.chunks:
            yield from self._of(chunk)

    def of(self, partition: TopicPartition) -> list[ConsumerRecord]:
        """The records of one partition."""
        return [record for chunk in self.chunks if chunk.partition == partition for record in self._of(chunk)]

    def _of(self, chunk: Chunk) -> Iterator[ConsumerRecord]:
        (topic, number), kind, epoch = chunk.partition, chunk.timestamp_type, chunk.leader_epoch
        key_of, value_of = self._settings.key_deserializer, self._settings.value_deserializer
        for offset, timestamp_ms, key, value, headers in chunk.records:
            yield ConsumerRecord(
                topic,
                number,
                offset,
                timestamp_ms,
                kind,
                key if key_of is None else key_of(key),
                value if value_of is None else value_of(value),
                headers,
                epoch,
            )


def deserializes(chunk: Chunk, settings: ConsumerSettings) -> tuple[Chunk, RecordDeserializationError | None]:
    """The records that the deserializers take, up to the first that they refuse, and its error.

    With `on_deserialize_error="skip"` or a callable the refused ones are left out instead.
    """
    key_of, value_of = settings.key_deserializer, settings.value_deserializer
    if key_of is None and value_of is None:
        return chunk, None
    kept: list[Record] = []
    for record in chunk.records:
        try:
            if key_of is not None:
                key_of(record.key)
            if value_of is not None:
                value_of(record.value)
        except Exception as cause:
            error = RecordDeserializationError(
                chunk.partition, record.offset, key=record.key, value=record.value, headers=record.headers
            )
            error.__cause__ = cause
            handler = settings.on_deserialize_error
            if handler == "raise":
                return chunk._replace(records=kept), error
            if callable(handler):
                handler(error)
        else:
            kept.append(record)
    return chunk._replace(records=kept), None
