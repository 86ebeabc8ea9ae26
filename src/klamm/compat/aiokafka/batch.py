"""A batch that a program fills by hand."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

RECORD_OVERHEAD_BYTES: Final = 30


class Appended(NamedTuple):
    """One record of a batch."""

    offset: int
    size: int
    timestamp: int | None


class BatchBuilder:
    """Records that `send_batch` sends together to one partition."""

    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size
        self._used_bytes = 0
        self._is_closed = False
        self.records: list[tuple[bytes | None, bytes | None, int | None, Any]] = []

    def append(
        self, *, key: bytes | None, value: bytes | None, timestamp: int | None, headers: Any = ()
    ) -> Appended | None:
        """Add a record; None if it does not fit, or the batch is closed."""
        size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
        if self._is_closed or (self.records and self._used_bytes + size > self._batch_size):
            return None
        self._used_bytes += size
        self.records.append((key, value, timestamp, headers))
        return Appended(len(self.records) - 1, size, timestamp)

    def record_count(self) -> int:
        return len(self.records)

    def size(self) -> int:
        """About how many bytes its records take."""
        return self._used_bytes

    def close(self) -> None:
        """Accept no more records."""
        self._is_closed = True
