"""The cluster's memory in dictionaries."""

from __future__ import annotations

from random import Random

import pytest

from klamm.storage.engines.memory_cluster import MemoryCluster
from unit.storage.cluster_contract import ClusterContract


class TestMemoryCluster(ClusterContract):
    """The contract, in memory."""

    @pytest.fixture
    def store(self) -> MemoryCluster:
        return MemoryCluster(random=Random(1))

    @pytest.fixture
    def other(self, store: MemoryCluster) -> MemoryCluster:
        return store.join()
