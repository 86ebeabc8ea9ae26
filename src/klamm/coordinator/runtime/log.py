"""The port through which a shard reaches its log; whoever runs the coordinator plugs storage into it."""

from __future__ import annotations

from typing import Protocol

from klamm.protocol.errors import ErrorCode


class AppendRefusedError(Exception):
    """The log took nothing; `error_code` says why in Kafka's words."""

    def __init__(self, error_code: ErrorCode, message: str = "") -> None:
        super().__init__(message or error_code.name)
        self.error_code = error_code


class LogUnavailableError(Exception):
    """The log cannot be used here: leadership went, the disk refuses, or the broker stops."""


class CoordinatorLog(Protocol):
    """One partition of an internal topic at one leader epoch, as bytes.

    Everything but `append` raises LogUnavailableError, and nothing raises another error.
    """

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int:
        """The offset the next record gets."""
        ...

    @property
    def durable_offset(self) -> int:
        """Everything below survives a crash."""
        ...

    def append(self, batch: bytes, *, now_ms: int, timestamp_ms: int) -> int:
        """Append one record batch; the offset of its first record. Raises AppendRefusedError.

        Whoever owns the log calls `Shard.on_durable` when `durable_offset` has passed it, and
        `Shard.on_flush_failed` when that will never be.
        """
        ...

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole durable batches from the one that holds `offset`, at least one unless they end there."""
        ...

    def flush(self) -> None:
        """See to it that everything appended becomes durable, or the flush is reported as failed."""
        ...

    def cut_back(self) -> None:
        """Drop everything that is not durable."""
        ...
