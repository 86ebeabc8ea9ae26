"""The brokers that a benchmark compares, each a process that can be started, watched and stopped."""

from __future__ import annotations

import compileall
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from interop.kafka_tools import ApacheKafka, free_port, wait_until_answering
from interop.processes import ROOT, inherited_environment

CLOCK_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def klamm_python() -> str:
    """The Python of an installation as users have it: test libraries cost time and memory at start."""
    as_installed = ROOT / ".venv-run" / "bin" / "python"
    return str(as_installed) if as_installed.exists() else sys.executable


class Running(Protocol):
    """A broker that serves."""

    start_to_first_answer_s: float
    port: int
    folder: Path

    @property
    def pid(self) -> int: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...


class Klamm:
    """`klamm up` on a free port, its data in the folder given."""

    def __init__(self, folder: Path, settings: Mapping[str, str], *, wait_s: float = 60) -> None:
        """It has `wait_s` to start, and to stop."""
        self.folder = folder
        self.settings = settings
        self.wait_s = wait_s
        self.port = free_port()
        self.start_to_first_answer_s = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start and wait for the first answer to a request."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [klamm_python(), "-m", "klamm.cli", "up", "--data", str(self.folder / "data")]
        if "listeners" not in self.settings:
            command += ["--listen", f"127.0.0.1:{self.port}"]
        for name, value in self.settings.items():
            command += ["--set", f"{name}={value}"]
        environment = {**inherited_environment(), "PYTHONPATH": str(ROOT / "src")}
        # As pip does when it installs: where PYTHONDONTWRITEBYTECODE is set, nothing else would.
        compileall.compile_dir(ROOT / "src" / "klamm", quiet=2)
        started_at = time.monotonic()
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment
            )
        wait_until_answering(("127.0.0.1", self.port), self._process, timeout_s=self.wait_s)
        self.start_to_first_answer_s = time.monotonic() - started_at

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if it takes too long."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(self.wait_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@dataclass(frozen=True, slots=True)
class Subject:
    """A way to run a broker, under the name that the table gives it."""

    name: str
    says: str

    def make(self, folder: Path, settings: Mapping[str, str] | None = None) -> Running:
        """A broker of this kind with empty data, not yet started."""
        quick = {"group.initial.rebalance.delay.ms": "0", **(settings or {})}
        match self.name:
            case "kafka":
                return ApacheKafka(folder, settings=quick)
            case "klamm":
                return Klamm(folder, quick)
            case "klamm-os":
                return Klamm(folder, {**quick, "klamm.flush": "os"})
            case _:
                raise ValueError(f"no broker is called {self.name!r}")


SUBJECTS = {
    "kafka": Subject("kafka", "Apache Kafka 4.3.1, one KRaft node, -Xms1g -Xmx1g, its default flush (none)"),
    "klamm": Subject("klamm", "klamm, its default: acknowledged means flushed to disk"),
    "klamm-os": Subject("klamm-os", "klamm with klamm.flush=os, Kafka's own default"),
}


def resident_mb(pid: int) -> float:
    """Resident memory of a process, in megabytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise ValueError(f"process {pid} tells no resident size")


def cpu_s(pid: int) -> float:
    """Processor time that a process has used, user and system, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS_PER_S
