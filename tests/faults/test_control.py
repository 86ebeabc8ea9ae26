"""`klamm up --control` as a process: what clients in other processes see of its clock, and how it ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

import klamm
from interop.processes import ROOT, LineProcess
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.metadata import MetadataRequest
from klamm.testing.wire import WireClient

COMMAND = (sys.executable, "-m", "klamm", "up", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0")
START_WITHIN_S = 60.0


class Controlled(LineProcess):
    """A broker with a control port."""

    def __init__(self, *arguments: str, stderr_path: Path) -> None:
        sources = {"PYTHONPATH": str(ROOT / "src")}
        super().__init__([*COMMAND, *arguments], stderr_path=stderr_path, environment=sources)
        parts = self.read_line(START_WITHIN_S).split(", ")
        self.bootstrap = parts[0].rpartition(" ")[2]
        self.control = parts[1].removeprefix("control on ")
        self.data = parts[2]

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        connection = HTTPConnection(self.control, timeout=120)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def advance(self, duration: str) -> None:
        """Move the clock; the process may end before it answers."""
        with suppress(ConnectionError):
            self.ask("POST", "/clock/advance", {"by": duration})


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Controlled]]:
    started: list[Controlled] = []

    def begin(*arguments: str) -> Controlled:
        process = Controlled(*arguments, stderr_path=tmp_path / f"stderr-{len(started)}")
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()


def test_records_of_other_processes_have_the_time_of_the_clock_and_connections_stay(
    start: Callable[..., Controlled],
) -> None:
    broker = start("--memory", "--clock", "virtual")
    assert broker.data == "data in memory"
    with WireClient(broker.bootstrap) as idle:
        idle.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None))
        moved_ms = broker.ask("POST", "/clock/advance", {"by": "2h"})["timestamp_ms"]
        idle.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None))  # idle for two hours, on its clock
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("t", "v").result()
    (record,) = broker.ask("GET", "/topics/t/records")["records"]
    assert record["timestamp_ms"] >= moved_ms
    assert broker.terminate(60) == 0


def test_a_signal_ends_it_while_the_clock_is_moved_or_stands_still(start: Callable[..., Controlled]) -> None:
    broker = start("--memory", "--clock", "virtual")
    broker.ask("POST", "/clock/freeze")
    before_ms = broker.ask("GET", "/clock")["timestamp_ms"]
    moving = threading.Thread(target=broker.advance, args=("36500d",))
    moving.start()
    while broker.ask("GET", "/clock")["timestamp_ms"] == before_ms:
        pass
    assert broker.terminate(60) == 0
    moving.join()


def test_on_a_folder_it_is_killed_as_a_process_and_keeps_what_it_acknowledged(
    start: Callable[..., Controlled], tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    broker = start("--data", str(folder), "--clock", "virtual")
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("t", "kept").result()
    assert broker.ask("GET", "/")["pid"] == broker.pid
    assert "kill the process" in broker.ask("POST", "/broker/kill")["error"]
    broker.process.send_signal(signal.SIGKILL)
    broker.process.wait()
    again = start("--data", str(folder))
    assert again.data == f"data in {folder}"
    assert [each["value"] for each in again.ask("GET", "/topics/t/records")["records"]] == ["kept"]
    assert "cannot be moved" in again.ask("POST", "/clock/freeze")["error"]


def test_a_control_port_that_is_in_use_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [*COMMAND[:-1], f"127.0.0.1:{port}", "--memory"]
        done = subprocess.run(
            command,
            env={"PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"klamm: port {port} is in use")
