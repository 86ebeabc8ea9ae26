"""Leases in a data folder: file locks, renewals, and processes that are stuck."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from klamm.broker.cluster.folder_lease import FolderLease, Process, boot_clock_ms, network_type
from klamm.clock import ManualClock
from klamm.storage.cluster import BrokerRegistration, FencedError

OTHER = BrokerRegistration(2, None, {}, epoch=5)
# Holds the lease of broker 2 until its input ends.
HOLDER = """
import sys
from klamm.broker.cluster.folder_lease import FolderLease
lease = FolderLease(sys.argv[1], 2, session_timeout_ms=9000)
assert lease.try_acquire() is None
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.communicate()


def a_lease(
    folder: Path, broker_id: int, *, fence: str = "kill", clock: ManualClock | None = None
) -> FolderLease:
    now_ms = boot_clock_ms if clock is None else clock.now_ms
    return FolderLease(folder, broker_id, session_timeout_ms=9000, fence=fence, now_ms=now_ms)


def test_a_lease_is_one_process_s_and_a_second_one_sees_which(
    tmp_path: Path, holder: subprocess.Popen[bytes]
) -> None:
    seen = a_lease(tmp_path, 2).try_acquire()
    assert seen is not None
    assert seen.description == f"process {holder.pid}"
    assert not seen.is_alive
    assert not a_lease(tmp_path, 1).is_dead(OTHER, judges_silence=True)


def test_a_killed_process_is_dead_and_its_lease_can_be_held(
    tmp_path: Path, holder: subprocess.Popen[bytes]
) -> None:
    lease = a_lease(tmp_path, 1)
    with lease.hold(OTHER) as is_held:
        assert not is_held
    holder.kill()
    holder.wait()
    assert lease.is_dead(OTHER, judges_silence=False)
    with lease.hold(OTHER) as is_held:
        assert is_held
        # Held: its successor cannot have it now.
        assert a_lease(tmp_path, 2).try_acquire() is not None
    assert a_lease(tmp_path, 2).try_acquire() is None


def test_a_process_that_does_not_renew_is_killed(tmp_path: Path, holder: subprocess.Popen[bytes]) -> None:
    holder.send_signal(signal.SIGSTOP)
    clock = ManualClock(boot_clock_ms())
    lease = a_lease(tmp_path, 1, clock=clock)
    clock.advance(8000)
    assert not lease.is_dead(OTHER, judges_silence=True)
    clock.advance(2000)
    assert not lease.is_dead(OTHER, judges_silence=False)
    assert holder.poll() is None
    assert not lease.is_dead(OTHER, judges_silence=True)
    assert holder.wait(10) == -signal.SIGKILL
    assert lease.is_dead(OTHER, judges_silence=True)


def test_with_fence_wait_it_is_left_alone(
    tmp_path: Path, holder: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    holder.send_signal(signal.SIGSTOP)
    clock = ManualClock(boot_clock_ms())
    lease = a_lease(tmp_path, 1, fence="wait", clock=clock)
    for _ in range(60):
        clock.advance(1000)
        assert not lease.is_dead(OTHER, judges_silence=True)
    assert [record.args[1] for record in caplog.records if record.args] == [holder.pid]  # type: ignore[index]
    holder.send_signal(signal.SIGCONT)
    assert holder.poll() is None


def test_another_program_with_the_same_pid_is_not_killed(holder: subprocess.Popen[bytes]) -> None:
    # scenario 52
    process = Process.of(holder.pid)
    assert process is not None
    earlier = Process(process.pid, "1", process.boot_id, process.namespace)
    assert not earlier.kill()
    in_container = Process(process.pid, process.started_at, process.boot_id, "pid:[1]")
    assert not in_container.kill()
    assert holder.poll() is None
    assert process.kill()
    assert holder.wait(10) == -signal.SIGKILL
    assert not process.kill()


def test_a_process_does_not_kill_itself(tmp_path: Path) -> None:
    clock = ManualClock(boot_clock_ms())
    mine = a_lease(tmp_path, 2, clock=clock)
    assert mine.try_acquire() is None
    clock.advance(60_000)
    second = a_lease(tmp_path, 2, clock=clock)
    for _ in range(2):
        seen = second.try_acquire()
        assert seen is not None
        assert seen.is_alive
        clock.advance(10_000)


def test_a_lock_file_that_was_removed_fences_its_owner(tmp_path: Path) -> None:
    lease = a_lease(tmp_path, 2)
    assert lease.try_acquire() is None
    lease.registered(OTHER)
    lease.renew()
    (tmp_path / "brokers" / "2.lock").unlink()
    with pytest.raises(FencedError, match=r"2\.lock was removed"):
        lease.renew()
    assert lease.try_acquire() is None
    lease.renew()


def test_acquiring_twice_is_harmless(tmp_path: Path) -> None:
    lease = a_lease(tmp_path, 2)
    assert lease.try_acquire() is None
    assert lease.try_acquire() is None
    lease.release()
    lease.release()
    assert a_lease(tmp_path, 1).is_dead(OTHER, judges_silence=False)


@pytest.mark.parametrize("content", [b"", b"\0" * 4, b"\0" * 8, b"\0" * 8 + b"{", b"\xff" * 100])
def test_a_damaged_lock_file_belongs_to_an_unknown_process(tmp_path: Path, content: bytes) -> None:
    first = a_lease(tmp_path, 2)
    assert first.try_acquire() is None
    (tmp_path / "brokers" / "2.lock").write_bytes(content)
    seen = a_lease(tmp_path, 2).try_acquire()
    assert seen is not None
    assert seen.description == "another process"


MOUNTS = r"""
22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
30 22 0:45 / /mnt/share rw,relatime shared:20 - nfs4 server:/export rw
31 30 259:3 / /mnt/share/local rw,relatime shared:21 - xfs /dev/sdb1 rw
32 22 0:46 / /mnt/with\040space rw,relatime shared:22 - cifs //server/x rw
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/srv/klamm", None),
        ("/mnt/share", "nfs4"),
        ("/mnt/share/klamm", "nfs4"),
        ("/mnt/shared", None),
        ("/mnt/share/local/klamm", None),
        ("/mnt/with space/klamm", "cifs"),
    ],
)
def test_a_network_file_system_is_recognised(path: str, expected: str | None) -> None:
    # scenario 76
    assert network_type(path, MOUNTS) == expected
