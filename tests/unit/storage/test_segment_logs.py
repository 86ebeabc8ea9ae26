"""Logs in segment files keep the contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from klamm.clock import ManualClock
from klamm.storage.engines.segments import SegmentStore
from unit.storage.log_contract import LogContract
from unit.storage.log_samples import HastyFiles


class TestSegmentStore(LogContract):
    """The default: readers see what is on disk."""

    @pytest.fixture
    def store(self, clock: ManualClock, tmp_path: Path) -> Iterator[SegmentStore]:
        store = SegmentStore(
            str(tmp_path), cluster_id="c", node_id=1, clock=clock, flush_on_commit=True, files=HastyFiles()
        )
        yield store
        store.close()


class TestSegmentStoreInOsMode(LogContract):
    """Kafka's own default: readers see what is appended."""

    flush_on_commit = False

    @pytest.fixture
    def store(self, clock: ManualClock, tmp_path: Path) -> Iterator[SegmentStore]:
        store = SegmentStore(
            str(tmp_path), cluster_id="c", node_id=1, clock=clock, flush_on_commit=False, files=HastyFiles()
        )
        yield store
        store.close()
