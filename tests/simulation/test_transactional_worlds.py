"""Transactions on the whole broker: producers, workers and readers, and everything that goes wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from klamm.broker.net.context import HeldResponse
from klamm.broker.partitions.markers import MarkerResults, MarkerWriter, TransactionMarker
from klamm.coordinator.group.remembered import TransactionEnded
from klamm.coordinator.runtime.outcome import Outcome
from klamm.coordinator.transaction.machine import TransactionMachine
from klamm.protocol.errors import NO_ERROR
from klamm.protocol.types import TopicPartition
from klamm.storage.engines.segments.log import SegmentLog
from klamm.storage.producer_state import ProducerState
from simulation.faults import NO_FAULTS, Faults
from simulation.scenarios import TRANSACTION_FAULTS, settle_transactions
from simulation.seeds import seeds
from simulation.world import BrokenPromiseError, World

FIXED = 30
FOR_MS = 8_000
# A clerk that had fewer partitions than before committed once more when the world was at rest.
FAILED = (456331656, 1350708793)


@pytest.mark.parametrize("seed", seeds(FIXED, FAILED))
def test_whatever_happens_transactions_are_whole_and_nothing_is_there_twice(seed: int) -> None:
    # scenario 96 of transactions
    with World(seed, TRANSACTION_FAULTS, test="test_transactional_worlds.py") as world:
        settle_transactions(world)
        world.run(for_ms=FOR_MS)
        world.heal()
        transactions = world.transactions.ledger.by_number.values()
        # In a world whose disk is slow from the beginning nothing may be written at all.
        assert world.transactions.read_batches or not any(each.told and each.written for each in transactions)


# --- faults of ours, planted -------------------------------------------------------------------------------


def first_complaint(faults: Faults = TRANSACTION_FAULTS) -> str:
    """What is wrong with a broker, found in one of a few worlds; "" when nobody notices."""
    for seed in range(8):
        try:
            with World(seed, faults) as world:
                settle_transactions(world)
                world.run(for_ms=5_000)
                world.heal()
        except BrokenPromiseError as error:
            return str(error).partition("\n")[0]
    return ""


def test_a_broker_that_does_not_list_aborted_transactions_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SegmentLog, "aborted_transactions", lambda self, start, end: ())
    assert "a reader is told True" in first_complaint(NO_FAULTS)


def test_a_broker_that_shows_open_transactions_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SegmentLog, "last_stable_offset", property(lambda self: self.high_watermark))
    assert "the last stable offset is" in first_complaint(NO_FAULTS)


def test_a_marker_that_is_reported_and_never_written_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    write = MarkerWriter.write

    def forget(
        self: MarkerWriter, marker: TransactionMarker, partitions: Sequence[TopicPartition], after: Any
    ) -> HeldResponse[MarkerResults]:
        if marker.producer_epoch % 3:
            return write(self, marker, partitions, after)
        response: HeldResponse[MarkerResults] = HeldResponse()
        response.keep(dict.fromkeys(partitions, NO_ERROR))
        return response

    monkeypatch.setattr(MarkerWriter, "write", forget)
    assert "is appended" in first_complaint(NO_FAULTS)  # that it is complete


def test_offsets_that_move_with_an_aborted_transaction_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def always_commits(producer_id: int, is_commit: bool) -> TransactionEnded:
        return TransactionEnded(producer_id, True)

    monkeypatch.setattr("klamm.broker.coordinators.groups.TransactionEnded", always_commits)
    assert "is said to stand at" in first_complaint(NO_FAULTS)


def test_partitions_that_do_not_verify_transactions_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def trust(*_: Any, **__: Any) -> bool:
        return True

    monkeypatch.setattr(ProducerState, "has_open_transaction", trust)
    monkeypatch.setattr(ProducerState, "_check_guard", lambda *_: None)
    assert "is appended, the coordinator has" in first_complaint(NO_FAULTS)


def test_a_coordinator_that_forgets_prepared_transactions_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TransactionMachine, "loaded", lambda self, context: Outcome())
    assert "did not come to rest" in first_complaint()


def test_partitions_that_accept_late_markers_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProducerState, "check_marker", lambda *_, **__: None)
    assert "seed" in first_complaint(Faults(marker=0.5))
