"""The disk that simulations run on forgets what a real one may forget, and nothing else."""

from __future__ import annotations

from errno import EIO, ENOSPC
from random import Random

import pytest

from klamm.clock import ManualClock
from klamm.storage.engines.segments.files import AlreadyLockedError
from klamm.storage.engines.simulated_disk import FailingOperation, PowerLossError, SimulatedFiles

SEEDS = range(40)


def a_disk(seed: int = 0, *, capacity_bytes: int | None = None) -> SimulatedFiles:
    disk = SimulatedFiles(Random(seed), ManualClock(), capacity_bytes=capacity_bytes)
    disk.make_directory("/d")
    disk.sync_directory("/")
    return disk


def test_what_is_synced_with_its_name_survives_every_crash() -> None:
    for seed in SEEDS:
        disk = a_disk(seed)
        disk.write_file("/d/a", b"kept", sync=True)
        disk.sync_directory("/d")
        disk.crash()
        assert disk.read_file("/d/a") == b"kept"


def test_what_is_not_synced_is_kept_lost_or_torn() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk = a_disk(seed)
        disk.write_file("/d/a", b"", sync=True)
        disk.sync_directory("/d")
        handle = disk.open("/d/a")
        disk.pwritev(handle, [b"x" * 512, b"y" * 512], 0)
        disk.crash()
        outcomes.add(disk.read_file("/d/a"))
    assert b"x" * 512 + b"y" * 512 in outcomes
    assert b"" in outcomes
    assert bytes(512) + b"y" * 512 in outcomes, "the second half without the first"
    assert b"x" * 512 in outcomes


def test_a_name_that_was_not_synced_may_be_gone_or_old() -> None:
    found = set()
    for seed in SEEDS:
        disk = a_disk(seed)
        disk.write_file("/d/a", b"old", sync=True)
        disk.sync_directory("/d")
        disk.write_file("/d/b", b"new", sync=True)
        disk.rename("/d/b", "/d/a")
        disk.crash()
        found.add((disk.read_file("/d/a"), disk.exists("/d/b")))
    assert found == {(b"old", False), (b"old", True), (b"new", False)}


def test_a_cut_that_was_not_synced_may_come_undone() -> None:
    found = set()
    for seed in SEEDS:
        disk = a_disk(seed)
        disk.write_file("/d/a", b"0123456789", sync=True)
        disk.sync_directory("/d")
        disk.truncate(disk.open("/d/a"), 4)
        disk.crash()
        found.add(disk.read_file("/d/a"))
    assert found == {b"0123", b"0123456789"}


def test_after_a_failed_sync_a_later_one_vouches_only_for_what_came_between() -> None:
    found = set()
    for seed in SEEDS:
        disk = a_disk(seed)
        disk.write_file("/d/a", b"", sync=True)
        disk.sync_directory("/d")
        handle = disk.open("/d/a")
        disk.pwritev(handle, [b"lost"], 0)
        disk.faults = [FailingOperation("sync")]
        with pytest.raises(OSError, match="Input/output") as refused:
            disk.sync(handle)
        assert refused.value.errno == EIO
        disk.pwritev(handle, [b"kept"], 4)
        disk.sync(handle)
        assert disk.read_file("/d/a") == b"lostkept", "readers see it until the power goes"
        disk.crash()
        found.add(disk.read_file("/d/a"))
    assert found == {b"lostkept", b"\0\0\0\0kept"}


def test_a_full_disk_takes_what_fits_and_then_nothing() -> None:
    disk = a_disk(capacity_bytes=10)
    handle = disk.open("/d/a", create=True)
    assert disk.pwritev(handle, [b"0123456", b"789abc"], 0) == 10
    with pytest.raises(OSError, match="No space") as refused:
        disk.pwritev(handle, [b"x"], 10)
    assert refused.value.errno == ENOSPC
    assert disk.pwritev(handle, [b"y"], 3) == 1, "what is there can be written over"
    assert disk.disk_space("/d") == (10, 0)


def test_a_fault_lets_others_through_and_lasts_if_it_should() -> None:
    disk = a_disk()
    handle = disk.open("/d/a", create=True)
    disk.faults = [FailingOperation("write", let_through=1, is_lasting=True)]
    disk.pwritev(handle, [b"a"], 0)
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output"):
            disk.pwritev(handle, [b"b"], 1)
    disk.faults = []
    disk.pwritev(handle, [b"c"], 1)


def test_without_power_nothing_works_until_it_is_back() -> None:
    disk = a_disk()
    disk.power_fails_at = disk.counters.total + 1
    with pytest.raises(PowerLossError):
        disk.write_file("/d/a", b"x", sync=True)
    with pytest.raises(PowerLossError):
        disk.read_file("/d/a")
    disk.crash()
    disk.write_file("/d/a", b"x", sync=True)


def test_a_lock_dies_with_its_process_and_a_kill_loses_no_bytes() -> None:
    disk = a_disk()
    disk.lock("/d/.lock")
    with pytest.raises(AlreadyLockedError):
        disk.lock("/d/.lock")
    disk.write_file("/d/a", b"here", sync=False)
    disk.kill()
    disk.lock("/d/.lock")
    assert disk.read_file("/d/a") == b"here"


def test_a_directory_moves_with_all_that_is_in_it() -> None:
    disk = a_disk()
    disk.make_directory("/d/t-0")
    disk.write_file("/d/t-0/a", b"x", sync=True)
    disk.rename("/d/t-0", "/d/t-0.gone")
    assert [entry.name for entry in disk.scan("/d")] == ["t-0.gone"]
    assert disk.read_file("/d/t-0.gone/a") == b"x"
    with pytest.raises(OSError, match="not empty"):
        disk.remove_directory("/d/t-0.gone")
    disk.remove("/d/t-0.gone/a")
    disk.remove_directory("/d/t-0.gone")
    assert disk.scan("/d") == []
