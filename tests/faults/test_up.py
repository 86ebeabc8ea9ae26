"""`klamm up` as a process: it says where it serves, ends well, and tells in one line why it cannot start."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interop.processes import ROOT, LineProcess, inherited_environment
from klamm import __version__
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from klamm.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from klamm.testing import wait_until
from klamm.testing.wire import WireClient

COMMAND = (sys.executable, "-m", "klamm")
ENVIRONMENT = {"PYTHONPATH": str(ROOT / "src")}
START_WITHIN_S = 20.0

Start = Callable[..., LineProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts `klamm up` with arguments; ended after the test."""
    started: list[LineProcess] = []

    def begin(*arguments: str, **environment: str) -> LineProcess:
        stderr_path = tmp_path / f"stderr-{len(started)}"
        process = LineProcess(
            [*COMMAND, "up", *arguments],
            stderr_path=stderr_path,
            environment={**ENVIRONMENT, **environment},
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()


def serving(process: LineProcess) -> tuple[str, str]:
    """(address, what it says of its data) of the first line."""
    line = process.read_line(START_WITHIN_S)
    prefix = f"klamm {__version__} listening on "
    assert line.startswith(prefix)
    address, comma, data = line.removeprefix(prefix).partition(", data ")
    assert comma
    return address, data


def refused(*arguments: str, cwd: Path | None = None) -> tuple[int, str]:
    """(exit code, standard error) of a command that cannot start."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        env={**inherited_environment(), **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=60,
        cwd=cwd,
        check=False,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def one_line(stderr: str) -> str:
    (line,) = stderr.splitlines()
    assert line.startswith("klamm: ")
    return line


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_as_soon_as_it_says_so_and_ends_well_when_told(
    start: Start, tmp_path: Path, number: signal.Signals
) -> None:
    process = start("--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"))
    address, data = serving(process)
    assert data == f"in {tmp_path / 'data'}"
    with WireClient(address) as client:
        response = client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None))
    host, _, port = address.rpartition(":")
    assert [(broker.host, broker.port) for broker in response.brokers] == [(host, int(port))]
    os.kill(process.pid, number)
    assert process.process.wait(20) == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_in_memory_nothing_is_left_behind(start: Start, tmp_path: Path) -> None:
    process = start("--memory", "--listen=127.0.0.1:0")
    _, data = serving(process)
    assert data == "in memory"
    os.kill(process.pid, signal.SIGTERM)
    assert process.process.wait(20) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["stderr-0"]


def test_a_topic_outlives_its_broker(start: Start, tmp_path: Path) -> None:
    arguments = ("--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"))
    for _ in range(2):
        process = start(*arguments)
        address, _ = serving(process)
        with WireClient(address) as client:
            asked = MetadataRequest(topics=None)
            before = client.ask(ApiKey.METADATA, 12, asked)
            client.ask(ApiKey.METADATA, 3, MetadataRequest(topics=[MetadataRequestTopic(name="kept")]))
        os.kill(process.pid, signal.SIGTERM)
        assert process.process.wait(20) == 0
    assert [topic.name for topic in before.topics] == ["kept"]


def test_settings_come_from_file_environment_and_flags(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nlog.segment.bytes=2048\nlog.retention.bytes=3\n")
    process = start(
        "--memory", "--listen", "127.0.0.1:0", "--config", str(file), "--set", "log.retention.bytes=5",
        KLAMM_SET_LOG_SEGMENT_BYTES="4096", KLAMM_SET_LOG_RETENTION_BYTES="4",
    )  # fmt: skip
    address, _ = serving(process)
    names = ["num.partitions", "log.segment.bytes", "log.retention.bytes"]
    with WireClient(address) as client:
        request = DescribeConfigsRequest([DescribeConfigsResource(4, "1", names)])
        (result,) = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, request).results
    assert {entry.name: entry.value for entry in result.configs} == {
        "num.partitions": "2",
        "log.segment.bytes": "4096",
        "log.retention.bytes": "5",
    }


def test_a_taken_port_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, stderr = refused("up", "--memory", "--listen", f"127.0.0.1:{port}")
    assert code == 1
    assert f"port {port} is in use" in one_line(stderr)


def test_a_folder_in_use_is_told(start: Start, tmp_path: Path) -> None:
    arguments = ("--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"))
    serving(start(*arguments))
    code, stderr = refused("up", *arguments)
    assert code == 1
    assert "broker 1 is already running at" in one_line(stderr)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_told_while_it_waits_for_an_earlier_process(
    start: Start, tmp_path: Path, number: signal.Signals
) -> None:
    arguments = ("--listen", "127.0.0.1:0", "--data", str(tmp_path / "d"), "--set", "klamm.fence=wait")
    first = start(*arguments)
    serving(first)
    os.kill(first.pid, signal.SIGSTOP)  # it keeps its lock, and does not renew its lease
    second = start(*arguments)
    wait_until(lambda: "waiting for the lease of its former process" in second.what_it_said(), "30s")
    os.kill(second.pid, number)
    assert second.process.wait(10) == 0
    os.kill(first.pid, signal.SIGCONT)
    assert first.terminate() == 0


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    code, stderr = refused("up", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "file" / "data"))
    assert code == 1
    assert "name another" in one_line(stderr)


def test_a_bad_setting_is_told_with_what_to_write_instead() -> None:
    code, stderr = refused("up", "--memory", "--set", "log.retentoin.ms=5")
    assert code == 2
    assert "did you mean log.retention.ms?" in one_line(stderr)


def test_help_and_version_teach() -> None:
    for arguments, said in (
        (["--version"], f"klamm {__version__}"),
        (["--help"], "klamm up"),
        (["up", "--help"], "--listen HOST:PORT"),
    ):
        done = subprocess.run(
            [*COMMAND, *arguments],
            env={**inherited_environment(), **ENVIRONMENT},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert said in done.stdout


def test_an_unknown_option_is_told_without_a_traceback() -> None:
    code, stderr = refused("up", "--nonsense")
    assert code == 2
    assert "--nonsense" in stderr
    assert "Traceback" not in stderr


def test_a_thread_that_computes_does_not_keep_requests_waiting(tmp_path: Path) -> None:
    code = (
        "import sys; from klamm.cli import main, serve\n"
        "serve.announce = lambda *_: print(sys.getswitchinterval(), flush=True)\n"
        "main()"
    )
    process = LineProcess(
        [sys.executable, "-c", code, "up", "--memory", "--listen", "127.0.0.1:0"],
        stderr_path=tmp_path / "stderr",
        environment=ENVIRONMENT,
    )
    try:
        # Python's default is ten times as much; the event loop waits so long for the interpreter's lock.
        assert float(process.read_line(START_WITHIN_S)) == 0.0005
    finally:
        process.kill()
