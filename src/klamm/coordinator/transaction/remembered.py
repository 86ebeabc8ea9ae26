"""What `__transaction_state` holds: one record per transactional id, the latest counts."""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple, TypeAlias

from klamm.coordinator.transaction.states import NEXT_STATES, State
from klamm.protocol.types import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
MAX_EPOCH: Final = 32_767  # never given to a client: it is there so that every client can be fenced
LAST_CLIENT_EPOCH: Final = MAX_EPOCH - 1
NO_TIMEOUT_MS: Final = 2_147_483_647  # a transaction in two phases; the coordinator never aborts it
NO_PARTITIONS: Final[frozenset[TopicPartition]] = frozenset()
_ONGOING: Final = State.ONGOING  # an enum's member is looked up slowly

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

    def moved(
        self,
        state: State,
        timestamp_ms: int,
        *,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
        timeout_ms: int | None = None,
        partitions: frozenset[TopicPartition] | None = None,
        started_timestamp_ms: int | None = None,
        previous_producer_id: int | None = None,
        next_producer_id: int | None = None,
        client_version: int | None = None,
        next_producer_epoch: int | None = None,
    ) -> TransactionStored:
        """The record of the next state, with changes. Each names the producer id of the record before it.

        Spelled out: `_replace` takes four times as long, and there are three records per transaction.
        """
        assert state in NEXT_STATES[self.state], f"{self.state.label} to {state.label}"
        (name, old_id, old_epoch, old_timeout_ms, _, old_partitions, _, old_start_ms, _, old_next_id,
         old_client_version, old_next_epoch) = self  # fmt: skip
        return _STORED(
            (
                name,
                old_id if producer_id is None else producer_id,
                old_epoch if producer_epoch is None else producer_epoch,
                old_timeout_ms if timeout_ms is None else timeout_ms,
                state,
                old_partitions if partitions is None else partitions,
                timestamp_ms,
                old_start_ms if started_timestamp_ms is None else started_timestamp_ms,
                old_id if previous_producer_id is None else previous_producer_id,
                old_next_id if next_producer_id is None else next_producer_id,
                old_client_version if client_version is None else client_version,
                old_next_epoch if next_producer_epoch is None else next_producer_epoch,
            )
        )

    @property
    def is_kept(self) -> bool:
        """Whether a new client took over the open transaction for commit or abort (KIP-939)."""
        return self.state is _ONGOING and self.next_producer_epoch != NO_EPOCH


_STORED: Final = partial(tuple.__new__, TransactionStored)  # twice as fast as calling the class


class TransactionForgotten(NamedTuple):
    """A transactional id that was not used for the expiration time."""

    transactional_id: str


TransactionRecord: TypeAlias = TransactionStored | TransactionForgotten
