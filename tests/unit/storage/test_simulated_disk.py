"""The simulated disk itself: what it keeps is what a disk would keep."""

from __future__ import annotations

from random import Random

import pytest

from klamm.clock import ManualClock
from klamm.storage.engines.simulated_disk import SimulatedFiles


@pytest.mark.parametrize("seed", range(10))
def test_a_directory_made_where_another_was_moved_away_keeps_its_own_files(seed: int) -> None:
    files = SimulatedFiles(Random(seed), ManualClock())
    files.make_directory("/logs")
    files.sync_directory("/")
    files.make_directory("/logs/t-0")
    files.rename("/logs/t-0", "/logs/t-0-delete")
    files.make_directory("/logs/t-0")
    files.write_file("/logs/t-0/data", b"kept", sync=True)
    files.sync_directory("/logs/t-0")
    files.sync_directory("/logs")
    files.crash()
    assert files.read_file("/logs/t-0/data") == b"kept"
