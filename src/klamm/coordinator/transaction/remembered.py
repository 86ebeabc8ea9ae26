"""What `__transaction_state` holds: one record per transactional id, the latest counts."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from klamm.coordinator.transaction.states import NEXT_STATES, State
from klamm.protocol.types import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
MAX_EPOCH: Final = 32_767  # never given to a client: it is there so that every client can be fenced
LAST_CLIENT_EPOCH: Final = MAX_EPOCH - 1
NO_TIMEOUT_MS: Final = 2_147_483_647  # a transaction in two phases; the coordinator never aborts it
NO_PARTITIONS: Final[frozenset[TopicPartition]] = frozenset()

EPOCH_BUMP_VERSION: Final = 2  # `transaction.version` from which each transaction has its own epoch (KIP-890)


class TransactionStored(NamedTuple):
    """A transactional id and its current transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: State
    partitions: frozenset[TopicPartition]
    updated_timestamp_ms: int
    started_timestamp_ms: int = -1
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0  # `transaction.version` as the request that caused the record implies it
    next_producer_epoch: int = NO_EPOCH

    def moved(self, state: State, timestamp_ms: int, **changes: object) -> TransactionStored:
        """The record of the next state. Each names the producer id of the record before it."""
        assert state in NEXT_STATES[self.state], f"{self.state.label} to {state.label}"
        changes.setdefault("previous_producer_id", self.producer_id)
        return self._replace(state=state, updated_timestamp_ms=timestamp_ms, **changes)  # type: ignore[arg-type]

    @property
    def is_kept(self) -> bool:
        """Whether a new client took over the open transaction for commit or abort (KIP-939)."""
        return self.state is State.ONGOING and self.next_producer_epoch != NO_EPOCH


class TransactionForgotten(NamedTuple):
    """A transactional id that was not used for the expiration time."""

    transactional_id: str


TransactionRecord: TypeAlias = TransactionStored | TransactionForgotten
