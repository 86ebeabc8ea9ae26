"""What a coordinator is to the runtime: decisions, and the two doors to its state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.protocol.errors import ErrorCode

Record_contra = TypeVar("Record_contra", contravariant=True)
Note_contra = TypeVar("Note_contra", contravariant=True)


class CorruptLogError(Exception):
    """The log holds a record that cannot be decoded; the shard cannot be served."""


class Machine(Protocol[Record_contra, Note_contra]):
    """The state of one shard. Only `replay`, `apply` and the loading methods change it."""

    def decide(self, request: object, context: Context) -> Outcome:
        """What to do about a request or a signal. Changes nothing."""
        ...

    def encode(self, records: Sequence[Record_contra], timestamp_ms: int) -> bytes:
        """The records as one batch for the log."""
        ...

    def replay(self, records: Sequence[Record_contra], offset: int) -> int:
        """Replay records that are in the log from this offset on; the offset after the last."""
        ...

    def durable(self, offset: int) -> None:
        """Everything below this offset of the log survives a crash. Not called for every step."""
        ...

    def apply(self, note: Note_contra) -> None:
        """Apply a note, a change of transient state."""
        ...

    def load(self, batches: bytes) -> int:
        """Replay whole batches as read from the log; the offset after the last. CorruptLogError."""
        ...

    def loaded(self, context: Context) -> Outcome:
        """The whole log is replayed: what to do before the first request."""
        ...

    def unloaded(self, error_code: ErrorCode) -> Outcome:
        """The shard is unloaded: error responses to all waiting requests."""
        ...

    def error_response(self, request: object, error_code: ErrorCode) -> object:
        """The response with an error."""
        ...

    def as_error(self, response: object, error_code: ErrorCode) -> object:
        """An answer that can no longer be given, turned into an error."""
        ...
