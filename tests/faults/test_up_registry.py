"""`klamm up --registry` as processes: broker and registry start together, and end together."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import klamm
from interop.processes import ROOT, LineProcess, ProcessEndedError, inherited_environment
from klamm import __version__
from klamm.testing import wait_until

ENVIRONMENT = {"PYTHONPATH": str(ROOT / "src")}
START_WITHIN_S = 30.0
END_WITHIN_S = 20.0
AVRO = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
REGISTRY_LINE = re.compile(
    r"klamm registry listening on (http://127\.0\.0\.1:\d+), schemas in topic _schemas of (.+)"
)

Start = Callable[..., LineProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts `klamm up` with a registry on a free port and more arguments; ended after the test."""
    started: list[LineProcess] = []

    def begin(*arguments: str) -> LineProcess:
        command = [sys.executable, "-m", "klamm", "up", "--listen", "127.0.0.1:0"]
        process = LineProcess(
            [*command, "--registry", "127.0.0.1:0", *arguments],
            stderr_path=tmp_path / f"stderr-{len(started)}",
            environment=ENVIRONMENT,
            folder=tmp_path,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.terminate(END_WITHIN_S)


def broker_address(line: str, rest: str) -> str:
    """The address in the line of a broker, whose form other programs rely on."""
    found = re.fullmatch(rf"klamm {re.escape(__version__)} listening on (127\.0\.0\.1:\d+), {rest}", line)
    assert found is not None, line
    return found[1]


def registry_of(process: LineProcess) -> tuple[str, str]:
    """(address, bootstrap servers) of the registry's line, which is the next one."""
    line = process.read_line(START_WITHIN_S)
    found = REGISTRY_LINE.fullmatch(line)
    assert found is not None, line
    return found[1], found[2]


def children_of(process: LineProcess) -> list[int]:
    """The processes that it started, in the order of their start."""
    text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii")
    return [int(each) for each in text.split()]


def register(url: str) -> int:
    """The id of a schema that is registered now."""
    request = urllib.request.Request(
        f"{url}/subjects/orders-value/versions",
        json.dumps({"schema": AVRO}).encode(),
        {"Content-Type": "application/vnd.schemaregistry.v1+json"},
    )
    with urllib.request.urlopen(request, timeout=START_WITHIN_S) as response:
        given: int = json.load(response)["id"]
    return given


def ended(process: LineProcess, children: list[int]) -> int:
    """The exit code; its children have ended, too."""
    code = process.process.wait(END_WITHIN_S)
    assert not [each for each in children if Path(f"/proc/{each}").exists()]
    assert "Traceback" not in process.what_it_said()
    return code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_both_serve_and_both_end_when_told(start: Start, number: signal.Signals) -> None:
    process = start("--memory")
    address = broker_address(process.read_line(START_WITHIN_S), "data in memory")
    url, bootstrap = registry_of(process)
    assert bootstrap == address
    with SchemaRegistryClient({"url": url}) as registry:
        value = SerializationContext("orders", MessageField.VALUE)
        data = AvroSerializer(registry, AVRO)({"id": 5}, value)
        assert data is not None
        with klamm.Producer(bootstrap_servers=address) as producer:
            producer.send("orders", data)
        with klamm.Consumer(
            "orders", bootstrap_servers=address, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            read = next(iter(consumer)).value
        assert AvroDeserializer(registry)(read, value) == {"id": 5}
    children = children_of(process)
    assert len(children) == 2
    os.kill(process.pid, number)
    assert ended(process, children) == 0


def test_schemas_outlive_brokers_on_one_folder(start: Start, tmp_path: Path) -> None:
    for is_first in (True, False):
        process = start("--data", str(tmp_path / "data"), "--brokers", "2")
        lines = sorted(process.read_line(START_WITHIN_S) for _ in range(2))
        kept = f"data in {re.escape(str(tmp_path / 'data'))}"
        addresses = [
            broker_address(line.removeprefix(f"broker {number}: "), kept)
            for number, line in enumerate(lines, start=1)
        ]
        url, bootstrap = registry_of(process)
        assert sorted(bootstrap.split(",")) == sorted(addresses)
        if is_first:
            assert register(url) == 1
        else:
            with urllib.request.urlopen(f"{url}/schemas/ids/1", timeout=START_WITHIN_S) as response:
                assert json.loads(json.load(response)["schema"]) == json.loads(AVRO)
        children = children_of(process)
        process.process.terminate()
        assert ended(process, children) == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_the_registry_logs_in_to_a_broker_that_asks_for_it(start: Start, tmp_path: Path) -> None:
    process = start("--memory", "--secure")
    broker_address(process.read_line(START_WITHIN_S), "data in memory")
    url, _ = registry_of(process)
    assert register(url) == 1
    password = (tmp_path / "klamm-secure" / "passwords").read_text().partition("admin:")[2].split()[0]
    for child in children_of(process):
        assert password not in Path(f"/proc/{child}/cmdline").read_text()
    assert "login of User:admin" in process.what_it_said()


def test_a_registry_that_logs_in_is_not_for_other_machines(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "klamm", "up", "--memory", "--secure", "--registry", "0.0.0.0:0"]
    done = subprocess.run(
        command,
        env={**inherited_environment(), **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        "klamm --profile secure registry --listen 0.0.0.0:0 --token-file FILE" in done.stderr.splitlines()[-1]
    )


def test_a_broker_for_tests_has_a_registry_too(start: Start) -> None:
    process = start("--memory", "--control", "127.0.0.1:0", "--clock", "virtual")
    broker_address(process.read_line(START_WITHIN_S), r"control on 127\.0\.0\.1:\d+, data in memory")
    url, _ = registry_of(process)
    assert register(url) == 1


@pytest.mark.parametrize(("victim", "said"), [(0, "broker 1"), (1, "the registry")])
def test_when_one_dies_the_other_ends(start: Start, victim: int, said: str) -> None:
    process = start("--memory")
    process.read_line(START_WITHIN_S)
    registry_of(process)
    children = children_of(process)
    os.kill(children[victim], signal.SIGKILL)
    assert ended(process, children) == 1
    assert f"klamm: {said} was killed by SIGKILL: stopping" in process.what_it_said()


def test_it_ends_well_when_told_before_the_registry_serves(start: Start) -> None:
    process = start("--memory")
    process.read_line(START_WITHIN_S)
    children = children_of(process)
    process.process.terminate()
    assert ended(process, children) == 0


def test_a_registry_ends_when_told_while_it_waits_for_a_broker(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(START_WITHIN_S)
        bootstrap = f"127.0.0.1:{silent.getsockname()[1]}"
        process = LineProcess(
            [sys.executable, "-m", "klamm", "registry", "--listen", "127.0.0.1:0", "-b", bootstrap],
            stderr_path=tmp_path / "stderr",
            environment=ENVIRONMENT,
        )
        connection, _ = silent.accept()
        with connection:
            assert process.terminate(5) == -signal.SIGTERM


def test_neither_outlives_a_process_that_is_killed(start: Start) -> None:
    process = start("--memory")
    process.read_line(START_WITHIN_S)
    registry_of(process)
    children = children_of(process)
    process.process.kill()
    wait_until(lambda: not any(Path(f"/proc/{each}").exists() for each in children), "20s")


def test_a_taken_port_ends_both_with_an_error(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = start("--memory", "--registry", f"127.0.0.1:{taken.getsockname()[1]}")
        broker_address(process.read_line(START_WITHIN_S), "data in memory")
        with pytest.raises(
            ProcessEndedError, match=r"exit code 1; (.|\n)*klamm: cannot listen on 127\.0\.0\.1"
        ):
            process.read_line(START_WITHIN_S)
    assert ended(process, []) == 1


def test_what_is_not_installed_is_told_before_a_broker_starts(tmp_path: Path) -> None:
    code = "import sys; sys.modules['uvicorn'] = None; from klamm.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "up", "--data", str(tmp_path / "data"), "--registry", "127.0.0.1:0"],
        env={**inherited_environment(), **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("klamm: the registry needs uvicorn, which is not installed: pip install ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()
