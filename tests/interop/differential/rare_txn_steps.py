"""Requests about transactions that brokers and administrators send, and clients do not."""

from __future__ import annotations

from typing import Final

from interop.differential.txn_world import GROUPS, TOPICS, Asked, TxnWorld
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from klamm.protocol.messages.find_coordinator import FindCoordinatorRequest
from klamm.protocol.messages.list_transactions import ListTransactionsRequest
from klamm.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)


def add_for_a_producer(world: TxnWorld) -> Asked:
    """A broker adds the partitions of a Produce, or verifies them, for several transactions at once."""
    random = world.random
    transactions = []
    for transaction in random.sample(world.transactions, random.choice((1, 1, 2))):
        producer_id, epoch, _ = world.identity(transaction)
        names = random.choices([*TOPICS, *TOPICS, "nosuch"], k=random.choice((0, 1, 1, 2)))
        topics = [
            AddPartitionsToTxnTopic(name, random.choices((0, 0, 0, 1, 99, -1), k=random.choice((0, 1, 1, 2))))
            for name in names
        ]
        transactions.append(
            AddPartitionsToTxnTransaction(
                transaction.transactional_id, producer_id, epoch, random.random() < 0.4, topics
            )
        )
    version = random.randint(4, 5)
    return Asked(
        ApiKey.ADD_PARTITIONS_TO_TXN, version, AddPartitionsToTxnRequest(transactions), "as a broker"
    )


def write_markers(world: TxnWorld) -> Asked:
    """Markers that no coordinator decided."""
    random = world.random
    markers = []
    for transaction in random.sample(world.transactions, random.choice((1, 1, 2))):
        # A partition twice, or none that exists, leaves Kafka silent. A later epoch, of the producer or of
        # the coordinator, leaves a transaction for ever in the state before its end, here too.
        topics = [
            WritableTxnMarkerTopic(name, random.sample(range(TOPICS.get(name, 1)), 1))
            for name in (
                *random.sample(list(TOPICS), random.choice((1, 1, 2))),
                *random.choice(((), ("nosuch",))),
            )
        ]
        markers.append(
            WritableTxnMarker(
                transaction.producer_id,
                transaction.epoch,
                random.random() < 0.5,
                topics,
                random.choice((0, 0, 0, -1)),
                random.choice((0, 1, 2)),
            )
        )
    return Asked(
        ApiKey.WRITE_TXN_MARKERS, random.randint(1, 2), WriteTxnMarkersRequest(markers), str(markers)[:300]
    )


def list_some(world: TxnWorld) -> Asked:
    """The transactions of these producers: others may be left over from other histories."""
    random = world.random
    version = random.randint(0, 2)
    producers = [each.producer_id for each in world.transactions if random.random() < 0.8] or [1 << 60]
    states = random.choice(
        ((), ("Ongoing",), ("Empty", "Foo", "Empty"), ("CompleteCommit",), ("",), ("Dead",))
    )
    duration_ms = random.choice((-1, -1, 0, 10**9, -(2**63))) if version >= 1 else -1
    pattern = random.choice((None, "", ".*", "nothing", "[")) if version >= 2 else None
    request = ListTransactionsRequest(list(states), producers + producers[:1], duration_ms, pattern)
    return Asked(ApiKey.LIST_TRANSACTIONS, version, request, f"{states} {duration_ms} {pattern!r}")


def find_coordinator(world: TxnWorld) -> Asked:
    random = world.random
    version = random.randint(1, 6)
    keys = random.choices(
        [*(each.transactional_id for each in world.transactions), "", *GROUPS], k=random.choice((0, 1, 2))
    )
    request = FindCoordinatorRequest(keys[0] if keys else "", random.choice((0, 1, 1, 1, 3, -1)), keys)
    return Asked(ApiKey.FIND_COORDINATOR, version, request, str(keys))


STEPS: Final = {add_for_a_producer: 6, write_markers: 3, list_some: 3, find_coordinator: 2}
