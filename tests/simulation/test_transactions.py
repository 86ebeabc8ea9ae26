"""Transactions while coordinators move, disks fail and markers are lost, repeated and late."""

from __future__ import annotations

import pytest

from klamm.coordinator.runtime.outcome import Outcome
from klamm.coordinator.transaction.actions import WriteMarkers
from klamm.coordinator.transaction.machine import TransactionMachine
from klamm.protocol.errors import NO_ERROR, ErrorCode
from simulation.nodes import LogAt
from simulation.seeds import seeds
from simulation.transactions import Entry, Partition, TransactionalProducer, TransactionRealm
from simulation.world import BrokenPromiseError


def settle(realm: TransactionRealm) -> None:
    for number, transactional_id in enumerate(("orders", "stock", "bills")):
        for name in ("anna", "bert"):  # rivals: each fences the other
            realm.add(TransactionalProducer(realm, name, transactional_id, bumps=number != 1))


@pytest.mark.parametrize("seed", seeds(20))
def test_a_transaction_ends_in_the_same_way_everywhere(seed: int) -> None:
    with TransactionRealm(seed, drop=0.05, flush_error=0.05) as realm:
        settle(realm)
        realm.run(for_ms=30_000)
        realm.heal()
        assert set(realm.acknowledged.values()) == {True, False}


def first_complaint() -> str:
    for seed in range(10):
        try:
            with TransactionRealm(seed, drop=0.05, flush_error=0.05) as realm:
                settle(realm)
                realm.run(for_ms=30_000)
                realm.heal()
        except BrokenPromiseError as error:
            return str(error)
    return ""


def test_a_marker_that_is_reported_and_never_written_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    write = Partition.mark

    def forget(self: Partition, order: WriteMarkers, coordinator_epoch: int) -> ErrorCode:
        return NO_ERROR if len(self.log) % 7 == 0 else write(self, order, coordinator_epoch)

    monkeypatch.setattr(Partition, "mark", forget)
    assert "is complete, and" in first_complaint()


def test_partitions_that_do_not_fence_late_markers_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def trust(self: Partition, order: WriteMarkers, coordinator_epoch: int) -> ErrorCode:
        self.log.append(Entry(order.producer_id, order.producer_epoch, is_commit=order.is_commit))
        return NO_ERROR

    monkeypatch.setattr(Partition, "mark", trust)
    assert "transaction" in first_complaint()


def test_a_coordinator_that_acts_before_its_decision_is_durable_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LogAt, "durable_offset", LogAt.end_offset)
    assert "seed" in first_complaint()


def test_a_coordinator_that_forgets_prepared_transactions_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TransactionMachine, "loaded", lambda self, context: Outcome())
    assert "never completed" in first_complaint()
