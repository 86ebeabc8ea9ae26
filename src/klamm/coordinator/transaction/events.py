"""Why the coordinator aborted a transaction or expired an id by itself: for `__klamm_events` and the log."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import ClassVar

from klamm.protocol.types import TopicPartition

_MAX_LISTED = 1_000  # partitions named one by one


class TransactionEventCause(StrEnum):
    """What made it happen."""

    TIMED_OUT = "the transaction was open for longer than its timeout"
    NEW_PRODUCER = "another producer initialized the transactional id"
    EXPIRED = "the transactional id was not used for transactional.id.expiration.ms"
    MARKER_REFUSED = "a partition refused the transaction marker"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEvent:
    """Something that happened to a transactional id."""

    type: ClassVar[str]

    transactional_id: str
    timestamp_ms: int
    cause: str
    producer_id: int
    producer_epoch: int
    client_id: str = ""  # the producer that it happened to, as far as known
    client_host: str = ""

    @property
    def key(self) -> str:
        return self.transactional_id

    @property
    def is_warning(self) -> bool:
        return False

    def as_json(self) -> dict[str, object]:
        """The event as JSON's own types; field names carry their units."""
        values: dict[str, object] = {"type": self.type}
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, frozenset):
                values[each.name] = [str(item) for item in sorted(value)[:_MAX_LISTED]]
                values[f"{each.name.removesuffix('s')}_count"] = len(value)
            else:
                values[each.name] = str(value) if isinstance(value, TransactionEventCause) else value
        return values

    def line(self) -> str:
        """One line for the log."""
        return f"Transactional id {self.transactional_id}: {self.cause}"

    def _identity(self) -> str:
        by = f" of client {self.client_id} at {self.client_host}" if self.client_id else ""
        return f"producer id {self.producer_id}, epoch {self.producer_epoch}{by}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionAborted(TransactionEvent):
    """The coordinator aborts an open transaction."""

    type: ClassVar[str] = "transaction_aborted"

    open_ms: int
    timeout_ms: int
    partitions: frozenset[TopicPartition]  # readers of these were held back

    def line(self) -> str:
        return (
            f"Aborting transaction of {self.transactional_id} ({self._identity()}) with "
            f"{len(self.partitions)} partitions after {self.open_ms} ms: {self.cause}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerFenced(TransactionEvent):
    """A producer lost its identity to another one."""

    type: ClassVar[str] = "producer_fenced"

    by_client_id: str
    by_client_host: str
    new_producer_id: int
    new_producer_epoch: int

    def line(self) -> str:
        return (
            f"Fenced {self._identity()} with transactional id {self.transactional_id}: client "
            f"{self.by_client_id} at {self.by_client_host} has producer id {self.new_producer_id}, "
            f"epoch {self.new_producer_epoch} now"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalIdExpired(TransactionEvent):
    """A transactional id was removed."""

    type: ClassVar[str] = "transactional_id_expired"

    unused_ms: int

    def line(self) -> str:
        return (
            f"Removed transactional id {self.transactional_id} ({self._identity()}), "
            f"unused for {self.unused_ms} ms"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionStuck(TransactionEvent):
    """A decided transaction cannot be completed until its shard is loaded again."""

    type: ClassVar[str] = "transaction_stuck"

    is_commit: bool
    error: str
    partitions: frozenset[TopicPartition]

    @property
    def is_warning(self) -> bool:
        return True

    def line(self) -> str:
        partitions = ", ".join(map(str, sorted(self.partitions)[:10]))
        operation = "Commit" if self.is_commit else "Abort"
        return (
            f"{operation} of {self.transactional_id} ({self._identity()}) stopped: "
            f"marker refused with {self.error} by {partitions}"
        )
