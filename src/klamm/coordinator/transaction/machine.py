"""The transaction coordinator of one shard, as the runtime sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from klamm.coordinator.runtime.outcome import Context, Outcome
from klamm.coordinator.transaction.add_partitions import add_partitions
from klamm.coordinator.transaction.config import TransactionConfig
from klamm.coordinator.transaction.describe import describe_transactions, list_transactions
from klamm.coordinator.transaction.end_txn import end_held_too_long, end_txn
from klamm.coordinator.transaction.expiry import expire, expiry_refused
from klamm.coordinator.transaction.init_producer_id import init_producer_id
from klamm.coordinator.transaction.loading import TransactionLoader, set_up
from klamm.coordinator.transaction.markers import (
    completion_refused,
    end_complete,
    markers_due,
    markers_written,
    prepared,
)
from klamm.coordinator.transaction.producer_ids import append_refused, producer_id_allocated
from klamm.coordinator.transaction.records import KnownTopics, encode_records
from klamm.coordinator.transaction.refusals import as_error, error_response
from klamm.coordinator.transaction.remembered import TransactionRecord
from klamm.coordinator.transaction.requests import AddPartitions
from klamm.coordinator.transaction.signals import (
    AppendRefused,
    CompletionRefused,
    EndComplete,
    EndHeldTooLong,
    IdExpiryDue,
    IdExpiryRefused,
    MarkersDue,
    MarkersWritten,
    Prepared,
    ProducerIdAllocated,
    TimedOut,
    TimeoutsDue,
)
from klamm.coordinator.transaction.state import Note, TransactionOutcome, TransactionState, apply, replay_all
from klamm.coordinator.transaction.timeouts import abort_timed_out, find_timed_out
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.describe_transactions import DescribeTransactionsRequest
from klamm.protocol.messages.end_txn import EndTxnRequest
from klamm.protocol.messages.init_producer_id import InitProducerIdRequest
from klamm.protocol.messages.list_transactions import ListTransactionsRequest

# Any: each handler takes the type under which it is listed.
DECISIONS: Final[Mapping[type, Callable[[TransactionState, Any, Context], TransactionOutcome]]] = {
    AddPartitions: add_partitions,
    EndTxnRequest: end_txn,
    EndHeldTooLong: end_held_too_long,
    InitProducerIdRequest: init_producer_id,
    DescribeTransactionsRequest: describe_transactions,
    ListTransactionsRequest: list_transactions,
    Prepared: prepared,
    MarkersWritten: markers_written,
    EndComplete: end_complete,
    MarkersDue: markers_due,
    CompletionRefused: completion_refused,
    ProducerIdAllocated: producer_id_allocated,
    AppendRefused: append_refused,
    TimeoutsDue: find_timed_out,
    TimedOut: abort_timed_out,
    IdExpiryDue: expire,
    IdExpiryRefused: expiry_refused,
}


class TransactionMachine:
    """Decisions about the transactional ids of one shard, and the doors to their state."""

    def __init__(self, config: TransactionConfig, version: Callable[[], int]) -> None:
        self.state = TransactionState(config, version)
        self._known_topics: KnownTopics = {}
        self._loader: TransactionLoader | None = TransactionLoader(self.state)

    def decide(self, request: object, context: Context) -> TransactionOutcome:
        return DECISIONS[type(request)](self.state, request, context)

    def encode(self, records: Sequence[TransactionRecord], timestamp_ms: int) -> bytes:
        return encode_records(records, timestamp_ms, self.state.version() >= 1, self._known_topics)

    def replay(self, records: Sequence[TransactionRecord], offset: int) -> int:
        return replay_all(self.state, records, offset)

    def durable(self, offset: int) -> None:
        """What is durable decides only when responses leave, and that is the shard's business."""

    def apply(self, note: Note) -> None:
        apply(self.state, note)

    def load(self, batches: bytes) -> int:
        assert self._loader is not None, "loaded already"
        return self._loader.load(batches)

    def loaded(self, context: Context) -> TransactionOutcome:
        self._loader = None
        return set_up(self.state, context)

    def unloaded(self, error_code: ErrorCode) -> TransactionOutcome:
        """Requests that wait look for the new coordinator."""
        parked = [
            (parked.token, error_response(parked.request, error_code))
            for parked in self.state.parked.values()
            if parked.token is not None
        ]
        held = [(held.token, as_error(held.response, error_code)) for held in self.state.held_ends.values()]
        return Outcome(replies=[*parked, *held])

    def error_response(self, request: object, error_code: ErrorCode) -> object:
        return error_response(request, error_code)

    def as_error(self, response: object, error_code: ErrorCode) -> object:
        return as_error(response, error_code)
