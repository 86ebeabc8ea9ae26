"""What the coordinator knows of a transactional id, as JSON: what Kafka's source calls TransactionMetadata.

Field names carry their units: `..._ms` are durations, `..._timestamp_ms` instants of the wall clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from klamm.coordinator.transaction.remembered import NO_EPOCH, NO_PRODUCER_ID, NO_TIMEOUT_MS
from klamm.coordinator.transaction.state import TransactionState
from klamm.coordinator.transaction.states import PREPARED, State
from klamm.protocol.types import TopicPartition


def inside(state: TransactionState, transactional_id: str, timestamp_ms: int) -> dict[str, Any] | None:
    """The inside of one id; None if there is no such id."""
    transaction = state.transactions.get(transactional_id)
    if transaction is None:
        return None
    stored, owner = transaction.stored, transaction.owner
    parked = state.parked.get(transactional_id)
    is_open = stored.state is State.ONGOING
    opened_ms = max(0, timestamp_ms - stored.started_timestamp_ms) if is_open else None
    left_ms = None
    if opened_ms is not None and stored.timeout_ms != NO_TIMEOUT_MS:
        left_ms = max(0, stored.timeout_ms - opened_ms)
    return {
        "transactional_id": transactional_id,
        "state": stored.state.label,
        "state_timestamp_ms": stored.updated_timestamp_ms,
        "state_since_ms": max(0, timestamp_ms - stored.updated_timestamp_ms),
        "producer_id": stored.producer_id,
        "producer_epoch": stored.producer_epoch,
        "last_epoch": None if transaction.last_epoch == NO_EPOCH else transaction.last_epoch,
        "previous_producer_id": _id(stored.previous_producer_id),
        "next_producer_id": _id(stored.next_producer_id),
        "protocol_version": stored.client_version,
        "client_id": None if owner is None else owner.client_id,
        "client_host": None if owner is None else owner.client_host,
        "timeout_ms": stored.timeout_ms,
        "open_ms": opened_ms,
        "left_ms": left_ms,
        "is_prepared_by_client": stored.is_kept,
        "partitions": _names(stored.partitions),
        "awaiting_marker": _names(transaction.missing or ()) if stored.state in PREPARED else [],
        "end_waits": transactional_id in state.held_ends,
        "parked": None if parked is None else type(parked.request).__name__.removesuffix("Request"),
        "is_durable": None,
    }


def _id(producer_id: int) -> int | None:
    return None if producer_id == NO_PRODUCER_ID else producer_id


def _names(partitions: Iterable[TopicPartition]) -> list[str]:
    return [str(each) for each in sorted(partitions)]
