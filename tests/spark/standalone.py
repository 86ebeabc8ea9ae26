"""A Spark cluster of processes on this machine: a master and workers, always stopped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from interop.kafka_tools import free_port
from interop.processes import ROOT, inherited_environment
from klamm.spark.setup.home import unzipped_home

_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_REGISTERED: Final = re.compile(rb"Successfully registered with master")


class Standalone:
    """`with Standalone(folder) as cluster:` the URL is `cluster.master`."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self._folder = folder
        self._worker_count = workers
        self._processes: list[subprocess.Popen[bytes]] = []
        self._port = free_port()
        self.master = f"spark://127.0.0.1:{self._port}"
        home = unzipped_home({})
        assert home is not None
        self._home = home

    @property
    def environment(self) -> dict[str, str]:
        """For the cluster and for what uses it: klamm from this tree, this Python, the loopback address."""
        return {
            **inherited_environment(),
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(self._folder / "work"),
            "SPARK_DAEMON_MEMORY": "128m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }

    def __enter__(self) -> Self:
        try:
            self._start("master", [_MASTER, "--host", "127.0.0.1", "--port", str(self._port)])
            for number in range(self._worker_count):
                worker = [_WORKER, "--host", "127.0.0.1", "--cores", "1", "--memory", "1g", self.master]
                self._start(f"worker-{number}", worker)
            for number in range(self._worker_count):
                self._wait_for(f"worker-{number}", self._processes[1 + number])
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self, name: str, arguments: Sequence[str]) -> None:
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [str(self._home / "bin" / "spark-class"), *arguments, "--webui-port", "0"],
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )

    def _wait_for(self, name: str, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + 120
        log = self._folder / f"{name}.log"
        while not _REGISTERED.search(log.read_bytes()):
            assert process.poll() is None, log.read_text(errors="replace")[-3000:]
            assert time.monotonic() < deadline, log.read_text(errors="replace")[-3000:]
            time.sleep(0.05)

    def stop(self) -> None:
        """Workers first: their executors end with them."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def run(self, command: Sequence[str], settings: Mapping[str, str] | None = None) -> str:
        """The output of a program that uses the cluster."""
        done = subprocess.run(
            command,
            env={**self.environment, **(settings or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=500,
            check=False,
        )
        assert not done.returncode, (done.stdout + done.stderr).decode(errors="replace")[-4000:]
        return done.stdout.decode()
