"""Logs in memory keep the contract, with and without waiting for a flush."""

from __future__ import annotations

import pytest

from klamm.clock import ManualClock
from klamm.storage.engines.memory import MemoryFiles
from klamm.storage.engines.segments import SegmentStore
from unit.storage.log_contract import LogContract


def memory_store(clock: ManualClock, *, flush_on_commit: bool) -> SegmentStore:
    return SegmentStore(
        "/memory",
        cluster_id="c",
        node_id=1,
        clock=clock,
        flush_on_commit=flush_on_commit,
        files=MemoryFiles(clock),
    )


class TestMemoryFiles(LogContract):
    """As `--memory` runs them: an append is done when it is made."""

    flush_on_commit = False

    @pytest.fixture
    def store(self, clock: ManualClock) -> SegmentStore:
        return memory_store(clock, flush_on_commit=False)


class TestMemoryFilesWithFlushes(LogContract):
    """As tests of the broker run them, to see what waits for a flush."""

    @pytest.fixture
    def store(self, clock: ManualClock) -> SegmentStore:
        return memory_store(clock, flush_on_commit=True)


def test_an_empty_memory_is_online_and_holds_no_partition() -> None:
    store = memory_store(ManualClock(), flush_on_commit=False)
    assert list(store.existing()) == []
    assert not store.status()[0].is_offline
    store.close()
