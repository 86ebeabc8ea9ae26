"""A disk that is full, as an operator meets it: a small real file system, and the command line."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from faults.load import read_all
from faults.test_disks import create, fill, produce, values_of
from interop.processes import ROOT, LineProcess, inherited_environment
from klamm.clock import SystemClock
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.messages.metadata import MetadataRequest
from klamm.testing.wire import WireClient

BATCH_BYTES = 60_000
PATIENCE_MS = 15_000


class SmallDisk:
    """A file system of 16 MiB, in a mount namespace of its own, and a broker on it."""

    def __init__(self, folder: Path, stderr_path: Path, *settings: str) -> None:
        assert shutil.which("unshare"), "unshare (util-linux) makes the small file system"
        folder.mkdir()
        self.folder = folder
        up = f"{sys.executable} -m klamm.cli up --listen 127.0.0.1:0 --data {folder}/data"
        for setting in settings:
            up += f" --set {setting}"
        serve = f"while read line; do {up}; echo exit $?; done"
        self.process = LineProcess(
            ["unshare", "-rm", "sh", "-c", f"mount -t tmpfs -o size=16m small {folder} && {serve}"],
            stderr_path=stderr_path,
            environment={"PYTHONPATH": str(ROOT / "src")},
        )
        self.stderr_path = stderr_path

    def start(self) -> str:
        """Start the broker; its address."""
        self.process.write_line("start")
        return self.process.read_line(20).split("listening on ", 1)[1].split(",", 1)[0]

    @property
    def _children(self) -> list[int]:
        shell = self.process.pid
        return [int(pid) for pid in Path(f"/proc/{shell}/task/{shell}/children").read_text().split()]

    @property
    def inside(self) -> Path:
        """The small file system, seen from here."""
        return Path(f"/proc/{self.process.pid}/root{self.folder}")

    def room(self) -> int:
        status = os.statvfs(self.inside)
        return status.f_bavail * status.f_frsize

    def fill_with_something_else(self) -> Path:
        """A file of another program takes every block that is left."""
        ballast = self.inside / "ballast"
        with ballast.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(1024 * 1024))
        with ballast.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
        return ballast

    def stop(self) -> str:
        (broker,) = self._children
        os.kill(broker, signal.SIGTERM)
        return self.process.read_line(20)

    def close(self) -> None:
        for child in self._children:
            os.kill(child, signal.SIGKILL)
        self.process.close()

    def log(self) -> str:
        return self.stderr_path.read_text()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "small"


@pytest.fixture
def disk(folder: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SmallDisk]:
    settings = getattr(request, "param", ())
    disk = SmallDisk(folder, tmp_path / "klamm.log", *settings)
    yield disk
    disk.close()


def klamm(bootstrap: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "klamm.cli", *arguments, "-b", bootstrap],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**inherited_environment(), "PYTHONPATH": str(ROOT / "src")},
    )


def fill_up(client: WireClient, topic: str) -> list[bytes]:
    """Produce until that is refused; what was acknowledged."""
    acknowledged: list[bytes] = []
    for number in range(400):
        value = b"%d:%s" % (number, Random(number).randbytes(BATCH_BYTES))
        error_code = produce(client, topic, value).error_code
        if error_code != ErrorCode.none:
            assert error_code == ErrorCode.kafka_storage_error
            return acknowledged
        acknowledged.append(value)
    raise AssertionError("the disk is not full")


def write_when_there_is_room(client: WireClient, topic: str) -> None:
    """The broker notices room by itself: it looks each second."""
    clock = SystemClock()
    due_ms = clock.now_ms() + PATIENCE_MS
    while produce(client, topic, b"again").error_code != ErrorCode.none:
        assert clock.now_ms() < due_ms, "writes are still refused"


MODES = pytest.mark.parametrize("disk", [(), ("klamm.flush=os",)], ids=["commit", "os"], indirect=True)


@MODES
def test_a_disk_that_its_records_filled_is_trimmed_and_written_to_again(disk: SmallDisk) -> None:
    # Given a disk that a producer has filled
    bootstrap = disk.start()
    with WireClient(bootstrap) as client:
        create(client, "filling", "other", segment_bytes="1048576")
        others = fill(client, "other", 3)
        filling = fill_up(client, "filling")
        assert values_of(client, "filling") == filling
        # Then the probe fails, and says what to do
        health = klamm(bootstrap, "health")
        assert health.returncode == 1
        assert "the disk is full" in health.stderr
        assert "klamm topics trim" in health.stderr
        # When its records are deleted
        room = disk.room()
        trim = klamm(bootstrap, "topics", "trim", "filling", "--before", "end")
        assert trim.returncode == 0, trim.stderr
        # Then there is room at once, and writing goes on
        write_when_there_is_room(client, "other")
        assert disk.room() > room + 3 * 1024 * 1024
        assert klamm(bootstrap, "health").returncode == 0
        assert values_of(client, "other") == [*others, b"again"]
    assert disk.stop() == "exit 0"
    assert "Traceback" not in disk.log()


def test_a_disk_that_something_else_filled_has_room_for_a_deletion_a_stop_and_a_start(
    disk: SmallDisk,
) -> None:
    # Given a disk that another program has filled to the last block
    bootstrap = disk.start()
    with WireClient(bootstrap) as client:
        create(client, "doomed", "other", segment_bytes="1048576")
        others = fill(client, "other", 3)
        fill(client, "doomed", 3)
        ballast = disk.fill_with_something_else()
        assert len(fill_up(client, "doomed")) < 400
        # Then a topic can be deleted, but none created
        refused = klamm(bootstrap, "topics", "create", "more")
        assert refused.returncode == 1
        assert "full" in refused.stderr
        deleted = klamm(bootstrap, "topics", "delete", "doomed")
        assert deleted.returncode == 0, deleted.stderr
        assert values_of(client, "other") == others
    # And the broker stops cleanly, and starts, on a disk that is still full
    disk.fill_with_something_else()
    assert disk.stop() == "exit 0"
    disk.fill_with_something_else()
    bootstrap = disk.start()
    with WireClient(bootstrap) as client:
        assert values_of(client, "other") == others
        assert produce(client, "other", b"no").error_code == ErrorCode.kafka_storage_error
        assert klamm(bootstrap, "health").returncode == 1
        # When the other program has ended, writing goes on
        ballast.unlink()
        write_when_there_is_room(client, "other")
        assert read_all(client, "other", 0)[-1].value == b"again"
        assert klamm(bootstrap, "health").returncode == 0
    assert disk.stop() == "exit 0"
    assert "Traceback" not in disk.log()


@pytest.mark.parametrize("disk", [("klamm.disk.reserve.bytes=0",)], ids=["none"], indirect=True)
def test_without_a_reserve_a_full_disk_still_stops_cleanly(disk: SmallDisk) -> None:
    bootstrap = disk.start()
    with WireClient(bootstrap) as client:
        (disk.inside / "ballast").write_bytes(bytes(2 * 1024 * 1024))
        create(client, "filling", "other", segment_bytes="1048576")
        others = fill(client, "other", 3)
        filling = fill_up(client, "filling")
        # Whoever asks for what is there gets it, from this partition's neighbours and about the cluster.
        assert values_of(client, "other") == others
        assert client.ask(ApiKey.METADATA, 9, MetadataRequest(topics=None)).topics
        assert "No space left on device" in disk.log()
        disk.fill_with_something_else()
        assert klamm(bootstrap, "health").returncode == 1
    assert not list(disk.inside.glob("data/klamm.reserve*"))
    assert disk.stop() == "exit 0"
    assert "Traceback" not in disk.log()
    # And a start that has no room says what to do
    disk.process.write_line("start")
    assert disk.process.read_line(20) == "exit 1"
    assert "is full: make room" in disk.log().splitlines()[-1]
    (disk.inside / "ballast").unlink()
    with WireClient(disk.start()) as client:
        assert values_of(client, "filling") == filling
