"""The demo's child processes: a broker and members, all of them gone when the demo is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path


class DemoBroker:
    """`klamm up` on a free port, its data in a folder of the demo."""

    def __init__(self, folder: Path) -> None:
        self._errors = (folder / "broker.log").open("wb")
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "klamm",
                "up",
                "--listen",
                "127.0.0.1:0",
                "--data",
                str(folder / "data"),
                "--set",
                "group.initial.rebalance.delay.ms=1000",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=_environment(),
        )
        assert self.process.stdout is not None
        banner = self.process.stdout.readline().strip()
        if "listening on " not in banner:
            self.stop()
            raise RuntimeError(f"the broker did not start: {(folder / 'broker.log').read_text().strip()}")
        self.bootstrap = banner.split("listening on ", 1)[1].split(",", 1)[0]

    def stop(self) -> None:
        _end(self.process)
        self._errors.close()


class DemoMember:
    """One member; what it reads is told to `on_orders`."""

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
            if line.endswith("\n"):  # a killed process may end in the middle of one
                self._on_orders(self.name, json.loads(line))

    def leave(self) -> None:
        """End in good order: the member commits and says goodbye."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._finish()

    def kill(self) -> None:
        """kill -9: not a word to anybody."""
        self.process.kill()
        self._finish()

    def _finish(self) -> None:
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()


def _environment() -> dict[str, str]:
    """Ours, less what a broker would take for settings; children find the same klamm."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KLAMM_")}
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
    if process.stdout is not None:
        process.stdout.close()
