"""What a coordinator is to the runtime: decisions, and the two doors to its state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.protocol.errors import ErrorCode

Record = TypeVar("Record")
Note = TypeVar("Note")


class CorruptLogError(Exception):
    """The log holds something that cannot be read; the shard is not served until somebody looks at it."""


class Machine(Protocol[Record, Note]):
    """The state of one shard. Only `replay`, `apply` and the loading methods change it."""

    def decide(self, request: object, context: Context) -> Outcome[Record, Note]:
        """What to do about a request or a signal. Changes nothing."""
        ...

    def encode(self, records: Sequence[Record], timestamp_ms: int) -> bytes:
        """The records as one batch for the log."""
        ...

    def replay(self, records: Sequence[Record], offset: int) -> None:
        """Remember records that stand in the log from this offset on."""
        ...

    def durable(self, offset: int) -> None:
        """Everything below this offset of the log survives a crash. Not told of every step."""
        ...

    def apply(self, note: Note) -> None:
        """Note something that a restart may forget."""
        ...

    def load(self, batches: bytes) -> int:
        """Replay whole batches as read from the log; the offset after the last. CorruptLogError."""
        ...

    def loaded(self, context: Context) -> Outcome[Record, Note]:
        """The whole log is replayed: what to do before the first request."""
        ...

    def unloaded(self, error_code: ErrorCode) -> Outcome[Record, Note]:
        """The shard goes: an answer to everybody who waits."""
        ...

    def error_response(self, request: object, error_code: ErrorCode) -> object:
        """The answer that tells of an error."""
        ...

    def as_error(self, response: object, error_code: ErrorCode) -> object:
        """An answer that can no longer be given, turned into an error."""
        ...
