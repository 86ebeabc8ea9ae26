"""confluent-kafka's Message: klamm's, with what a program written for it may also call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from klamm.client.consumer.records import ConsumerRecord
from klamm.client.message import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Headers,
)
from klamm.client.message import Message as OwnMessage


class Message(OwnMessage):
    """One record, read or delivered, or an event: then `error()` is set."""

    __slots__ = ("_latency_s",)

    def __init__(
        self,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        key: Any = None,
        value: Any = None,
        headers: Headers | None = None,
        error: Any = None,
        timestamp: tuple[int, int] = (TIMESTAMP_NOT_AVAILABLE, 0),
        latency: float | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        super().__init__(
            topic,
            partition,
            offset,
            key=key,
            value=value,
            headers=headers,
            timestamp=timestamp,
            leader_epoch=leader_epoch,
            error=error,
        )
        self._latency_s = latency

    def latency(self) -> float | None:
        """Seconds from `produce()` to the broker's answer; None for records read or not delivered."""
        return self._latency_s

    def delivery_count(self) -> int | None:
        """None: only records of share consumers are counted."""
        return None

    def set_topic(self, topic: str) -> None:
        self._place = (topic, self._place[1])

    def set_headers(self, headers: Headers | None) -> None:
        self._headers = headers

    def set_error(self, error: Any) -> None:
        self._error = error

    def deserialized_key(self) -> Any:
        return self._key

    def deserialized_value(self) -> Any:
        return self._value


class Messages:
    """Several messages, as a share consumer returns them."""

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    def __len__(self) -> int:
        return len(self._messages)


def message_of_record(record: ConsumerRecord[Any, Any]) -> Message:
    """A record that was read."""
    kind = TIMESTAMP_LOG_APPEND_TIME if record.timestamp_type else TIMESTAMP_CREATE_TIME
    return Message(
        record.topic,
        record.partition,
        record.offset,
        record.key,
        record.value,
        record.headers,
        timestamp=(kind, record.timestamp_ms),
        leader_epoch=record.leader_epoch,
    )
