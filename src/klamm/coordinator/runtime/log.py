"""The port through which a shard reaches its log; the broker implements it with storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from klamm.protocol.errors import ErrorCode


class AppendRefusedError(Exception):
    """The append failed and wrote nothing; `error_code` is Kafka's."""

    def __init__(self, error_code: ErrorCode, message: str = "") -> None:
        super().__init__(message or error_code.name)
        self.error_code = error_code


class LogUnavailableError(Exception):
    """The log cannot be used here: leadership moved, the disk failed, or the broker is stopping."""


class LogNotLoadedError(Exception):
    """The part to read is being loaded; `then` calls a function when it is there, and reading works."""

    def __init__(self, then: Callable[[Callable[[], None]], None]) -> None:
        super().__init__("the log is being loaded")
        self.then = then


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

    @property
    def is_being_repaired(self) -> bool:
        """Whether it refuses appends until a flush has removed what a failed one left."""
        ...

    def append(self, batch: bytes, *, now_ms: int, timestamp_ms: int, is_awaited: bool = True) -> int:
        """Append one record batch; the offset of its first record. Raises AppendRefusedError.

        If nothing waits for it, its flush may be a little later: with the next batch, or at `flush`.

        The owner of the log calls `Shard.on_durable` when `durable_offset` has passed it, and
        `Shard.on_flush_failed` when that will never be.
        """
        ...

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole durable batches from the one that holds `offset`, at least one unless they end there.

        Also raises LogNotLoadedError.
        """
        ...

    def flush(self) -> None:
        """See to it that everything appended becomes durable, or the flush is reported as failed."""
        ...

    def cut_back(self) -> None:
        """Drop everything that is not durable."""
        ...
