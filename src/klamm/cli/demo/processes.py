"""The demo's child processes: a broker and members, which all end with the demo.

The demo stops them; if it is killed first, their standard input closes, and they end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


class DemoBroker:
    """`klamm up` on a free port, its data in a folder of the demo."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._errors = (folder / "broker.log").open("ab")
        self.bootstrap = "127.0.0.1:0"
        self._start()

    def _start(self) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "klamm.cli.demo.broker",
                "up",
                "--listen",
                self.bootstrap,
                "--data",
                str(self._folder / "data"),
                "--set",
                "group.initial.rebalance.delay.ms=1000",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=_environment(),
        )
        try:
            self.bootstrap = self._address(self._folder / "broker.log")
        except BaseException:  # on Ctrl-C too, or it would be left running
            self.stop()
            raise

    def kill_and_restart(self) -> None:
        """kill -9, and start again at the same address with what is on the disk."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self._start()

    def _address(self, log: Path) -> str:
        assert self.process.stdout is not None
        banner = self.process.stdout.readline().strip()
        if "listening on " not in banner:
            raise RuntimeError(f"the broker did not start: {log.read_text().strip()}")
        return banner.split("listening on ", 1)[1].split(",", 1)[0]

    def stop(self) -> None:
        _end(self.process)
        self._errors.close()


class DemoMember:
    """One member; `on_orders` is called with what it reads."""

    def __init__(
        self,
        name: str,
        bootstrap: str,
        group: str,
        *,
        session_timeout_ms: int,
        on_orders: Callable[[str, list[int]], None],
    ) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, "-m", "klamm.cli.demo.member", bootstrap, group, name, str(session_timeout_ms)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=_environment(),
        )
        self._on_orders = on_orders
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):  # a killed process may end in the middle of a line
                self._on_orders(self.name, json.loads(line))

    def leave(self) -> None:
        """Stop the member: it commits and leaves the group."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._finish()

    def kill(self) -> None:
        """kill -9: the member does not leave the group."""
        self.process.kill()
        self._finish()

    def _finish(self) -> None:
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()


class DemoSpark:
    """The Spark job; `at` is its current step. Spark starts at once, the job at `begin`."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.at = "Java starts"
        self._log = folder / "spark.log"
        with self._log.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "klamm.spark.demo_job", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=_environment(),
                start_new_session=True,  # Java is in it, and ends with it
            )
        self.has_written = threading.Event()  # the first batch
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.at = line.strip()
            if "written in one transaction" in self.at:
                self.has_written.set()
        self.has_written.set()  # or it ended

    def begin(self) -> None:
        """Let the job read: the orders are there."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it ended: `wait` says why
            self.process.stdin.write("begin\n")
            self.process.stdin.flush()

    def wait(self) -> None:
        """Wait until it is done; raises RuntimeError with its last output when it failed."""
        if self.process.wait():
            said = self._log.read_text(errors="replace").strip().splitlines()
            raise RuntimeError(f"Spark failed: {said[-1] if said else 'no output'}")

    def stop(self) -> None:
        """Stop it and its Java process, if they are still running."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def _environment() -> dict[str, str]:
    """This process's environment without broker settings; children import the same klamm."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KLAMM_SET_")}
    source = str(Path(__file__).parents[3])
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, (source, kept.get("PYTHONPATH"))))
    return kept


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
