"""A record as confluent-kafka's programs see it: every field is a method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

Headers = Sequence[tuple[str, bytes | None]]

TIMESTAMP_NOT_AVAILABLE: Final = 0
TIMESTAMP_CREATE_TIME: Final = 1
TIMESTAMP_LOG_APPEND_TIME: Final = 2


class Message:
    """One record, read or delivered; `error()` is set instead of a value where there is an error."""

    __slots__ = ("_error", "_headers", "_key", "_leader_epoch", "_offset", "_place", "_timestamp", "_value")

    def __init__(
        self,
        topic: str | None,
        partition: int | None,
        offset: int | None,
        *,
        key: Any = None,
        value: Any = None,
        headers: Headers | None = None,
        timestamp: tuple[int, int] = (TIMESTAMP_NOT_AVAILABLE, 0),
        leader_epoch: int | None = None,
        error: Any = None,
    ) -> None:
        self._place = (topic, partition)
        self._offset = offset
        self._key = key
        self._value = value
        self._headers = headers
        self._timestamp = timestamp
        self._leader_epoch = leader_epoch
        self._error = error

    def error(self) -> Any:
        return self._error

    def topic(self) -> str | None:
        return self._place[0]

    def partition(self) -> int | None:
        return self._place[1]

    def offset(self) -> int | None:
        return self._offset

    def key(self) -> Any:
        return self._key

    def value(self) -> Any:
        return self._value

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return list(self._headers) if self._headers else None

    def timestamp(self) -> tuple[int, int]:
        """The kind of the timestamp, and milliseconds."""
        return self._timestamp

    def leader_epoch(self) -> int | None:
        return self._leader_epoch

    def set_key(self, key: Any) -> None:
        self._key = key

    def set_value(self, value: Any) -> None:
        self._value = value

    def __len__(self) -> int:
        return len(self._value) if self._value is not None else 0

    def __bool__(self) -> bool:
        return True  # also one with an empty value

    def __repr__(self) -> str:
        topic, partition = self._place
        what = f"error={self._error!r}" if self._error is not None else f"value={self._value!r}"
        return f"<Message {topic}-{partition} at {self._offset}: key={self._key!r} {what}>"
