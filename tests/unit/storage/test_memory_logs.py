"""Logs in memory keep the contract, with and without waiting for a flush."""

from __future__ import annotations

import pytest

from klamm.clock import ManualClock
from klamm.storage.engines.memory import MemoryStore
from unit.storage.log_contract import LogContract


class TestMemoryStore(LogContract):
    """As `--memory` runs it: an append is done when it is made."""

    flush_on_commit = False

    @pytest.fixture
    def store(self, clock: ManualClock) -> MemoryStore:
        return MemoryStore(clock=clock)


class TestMemoryStoreWithFlushes(LogContract):
    """As tests of the broker run it, to see what waits for a flush."""

    @pytest.fixture
    def store(self, clock: ManualClock) -> MemoryStore:
        return MemoryStore(clock=clock, flush_on_commit=True)


def test_a_memory_store_needs_nothing_said() -> None:
    store = MemoryStore()
    assert list(store.existing()) == []
    assert not store.status()[0].is_offline
    store.close()
