"""Several brokers keep what they acknowledged, whoever leads and whatever goes wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from klamm.broker.cluster.following import ClusterFollower
from klamm.broker.cluster.topic_names import OFFSETS_TOPIC
from klamm.broker.coordinators.transactions import Transactions
from klamm.broker.partitions.markers import TransactionMarker
from klamm.broker.partitions.registry import Partition
from klamm.protocol.types import TopicPartition
from klamm.storage.cluster import ClusterChanges
from klamm.storage.engines.shared_logs import SharedLogs
from simulation.brokers import Brokers
from simulation.seeds import seeds

STEPS = 300


def run(seed: int) -> None:
    brokers = Brokers(seed)
    try:
        brokers.run(STEPS)
        brokers.heal()
        brokers.check()
        assert len(brokers.happened) > 1
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    finally:
        brokers.close()


@pytest.mark.parametrize("seed", seeds(6))
def test_what_was_acknowledged_is_there_whoever_leads(seed: int) -> None:
    run(seed)


def aborting(marker: TransactionMarker) -> TransactionMarker:
    """The marker of a transaction that was committed, as if it had been aborted."""
    return TransactionMarker(
        marker.producer_id, marker.producer_epoch, False, marker.coordinator_epoch, marker.bumps_epoch
    )


def first_complaint() -> str:
    for seed in range(5):
        try:
            run(seed)
        except AssertionError as error:
            return str(error)
    return ""


def test_a_store_that_loses_a_record_when_the_leader_changes_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = SharedLogs.open

    def lose_the_last(self: SharedLogs, *arguments: Any) -> Any:
        log = opened(self, *arguments)
        if log.leader_epoch and log.log_end_offset:
            log.truncate(log.log_end_offset - 1)
        return log

    monkeypatch.setattr(SharedLogs, "open", lose_the_last)
    assert "seed" in first_complaint()


def test_a_broker_that_keeps_a_partition_it_has_lost_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def keep(self: ClusterFollower, changes: ClusterChanges) -> None:
        """Close nothing."""

    monkeypatch.setattr(ClusterFollower, "_close_lost", keep)
    assert "seed" in first_complaint()


def test_a_transaction_that_is_committed_in_one_partition_only_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write = Transactions.write

    def abort_in_the_first(
        self: Transactions,
        marker: TransactionMarker,
        partitions: Sequence[TopicPartition],
        after: Partition | None,
    ) -> Any:
        first, others = partitions[:1], partitions[1:]
        aborted = aborting(marker)
        return write(self, aborted, first, after) + write(self, marker, others, after)

    monkeypatch.setattr(Transactions, "write", abort_in_the_first)
    assert "was to be True" in first_complaint()


def test_an_offset_that_is_not_committed_with_its_transaction_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write = Transactions.write

    def abort_offsets(
        self: Transactions,
        marker: TransactionMarker,
        partitions: Sequence[TopicPartition],
        after: Partition | None,
    ) -> Any:
        offsets = [each for each in partitions if each.topic == OFFSETS_TOPIC]
        others = [each for each in partitions if each.topic != OFFSETS_TOPIC]
        aborted = aborting(marker)
        return write(self, aborted, offsets, after) + write(self, marker, others, after)

    monkeypatch.setattr(Transactions, "write", abort_offsets)
    assert "was to be at" in first_complaint()
