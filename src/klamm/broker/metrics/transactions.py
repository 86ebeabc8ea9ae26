"""Metrics of the transaction coordinator, with Kafka's names where it has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from klamm.broker.metrics.exposition import Family
from klamm.coordinator.runtime.shard import ShardStatus
from klamm.coordinator.transaction.states import State

if TYPE_CHECKING:
    from klamm.broker.coordinators.transactions import Transactions

_COORDINATOR: Final = "kafka_server_transaction_coordinator_metrics_"


def transaction_families(transactions: Transactions) -> Iterator[Family]:
    """Transactions that are open, decided and not complete, and ended by the coordinator."""
    states = Counter(each.stored.state for each in transactions.coordinator.transactions())
    ids = Family("klamm_transactional_ids", "gauge", "transactional ids, by state")
    for state in State:
        ids.add(states[state], state=state.label)
    yield ids
    events = Family("klamm_transaction_events_total", "counter", "aborts, fences and expiries, by cause")
    for (event_type, cause), count in transactions.counts.items():
        events.add(count, type=event_type, cause=cause)
    yield events
    statuses = Counter(shard.status for shard in transactions.shards)
    partitions = Family(
        f"{_COORDINATOR}num_partitions", "gauge", "partitions of __transaction_state led here"
    )
    for status in (ShardStatus.LOADING, ShardStatus.ACTIVE, ShardStatus.FAILED):
        partitions.add(statuses[status], state=status.value)
    yield partitions
    if transactions.longest_load_ms is not None:
        yield Family(f"{_COORDINATOR}partition_load_time_max", "gauge", "milliseconds").add(
            transactions.longest_load_ms
        )
