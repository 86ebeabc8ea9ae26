"""`klamm ctl` against a control port: what it prints, its exit codes, its help."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import klamm
from klamm.broker.net.listeners import Listener
from klamm.cli.app import app
from klamm.cli.exit_codes import FAILED, MISUSED
from klamm.testing import Broker
from klamm.testing.control_http import ControlServer

COMMANDS = [
    "clock show", "clock advance 1s", "clock freeze", "clock run", "clock rate 2", "faults add lose",
    "faults list", "faults lift 1", "story g", "records t", "group g", "kill", "cut-power", "restart",
]  # fmt: skip
WAITS = ["wait group g --lag 0", "wait topic t", "wait event e", "wait fault 1"]


@pytest.fixture(autouse=True)
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    broker = Broker(auto_create_topics_enable=False)
    with ControlServer(broker, Listener("HTTP", "127.0.0.1", 0)) as server, broker:
        server.start()
        monkeypatch.setitem(os.environ, "KLAMM_CONTROL", server.address)
        yield broker


def run(line: str) -> Result:
    return CliRunner().invoke(app, ["ctl", *line.split(" ")])


def printed(line: str) -> str:
    done = run(line)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def as_json(line: str) -> Any:
    return json.loads(printed(f"{line} --json"))


def check_failed(done: Result, exit_code: int, said: str) -> None:
    assert done.exit_code == exit_code, (done.output, done.exception)
    (line,) = done.stderr.splitlines()
    assert line.startswith("klamm: ")
    assert said in line


def test_the_clock_is_shown_moved_stopped_and_run(broker: Broker) -> None:
    assert "virtual  stopped" in printed("clock freeze")
    before_ms = as_json("clock show")["timestamp_ms"]
    assert "virtual  stopped" in printed("clock advance 1h30m")
    assert as_json("clock show")["timestamp_ms"] - before_ms == 5_400_000
    assert "rate 60" in printed("clock rate 60")
    assert broker.clock.rate == 60
    assert "rate 1" in printed("clock run")


def test_faults_are_ordered_listed_and_lifted(broker: Broker) -> None:
    line = printed("faults add fail OffsetCommit --group g --error NOT_COORDINATOR --times 2").splitlines()[1]
    assert line.split() == [
        "1", "fail", "OffsetCommit", "error=NOT_COORDINATOR", "group=g", "times=2", "0", "in", "force",
    ]  # fmt: skip
    printed("faults add delay --by 10s --client-id web --probability 0.5 --seed 7")
    printed("faults add fail_fsync --topic __consumer_offsets --partition 0 --times 1")
    assert [each["fault"] for each in as_json("faults list")] == ["fail", "delay", "fail_fsync"]
    assert broker.faults.separates("__consumer_offsets", 0)
    assert len(list(broker.faults)) == 2
    assert printed("faults lift 1 2").count("over") == 2
    assert list(broker.faults) == []
    assert len(as_json("faults lift --all")) == 1
    assert printed("faults list") == ""


def test_records_groups_and_stories_are_printed(broker: Broker) -> None:
    broker.create_topic("t")
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("t", "v", key=b"\xff").result()
    with klamm.Consumer(
        "t", bootstrap_servers=broker.bootstrap, group_id="g", client_id="m", auto_offset_reset="earliest"
    ) as consumer:
        consumer.consume(1, timeout=30)
        consumer.commit()
        assert printed("group g").splitlines()[0] == "group g: Stable, lag 0"
        assert as_json("group g")["members"][0]["name"] == "m"
    assert "base64:/w==  v" in printed("records t")
    assert as_json("records t --uncommitted")[0]["value"] == "v"
    assert "joined" in printed("story g")
    assert as_json("story g --times")["story"].lstrip().startswith("0.000")
    assert printed("story") == printed("story g")
    assert printed("story absent") == "No events recorded.\n"


def test_a_broker_is_killed_and_restarted(broker: Broker) -> None:
    assert printed("kill") == f"{broker.bootstrap} is down\n"
    check_failed(run("group g"), FAILED, "the broker is not running")
    assert printed("restart") == f"{broker.bootstrap} is up\n"
    assert printed("cut-power") == f"{broker.bootstrap} is down\n"
    assert printed("restart") == f"{broker.bootstrap} is up\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("records absent", "topic absent does not exist"),
        ("group absent", "group absent does not exist"),
        ("faults lift 7", "no fault has the id 7"),
        ("faults add explode", "invalid fault 'explode'"),
        ("faults add fail Produse --error NOT_COORDINATOR", "did you mean Produce?"),
        ("faults add fail Produce --error NOT_CORDINATOR", "did you mean NOT_COORDINATOR?"),
    ],
)
def test_what_the_broker_rejects_is_a_failure(line: str, said: str) -> None:
    check_failed(run(line), FAILED, said)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("clock advance soon", "invalid duration 'soon'"),
        ("clock advance 40000d", "at most 100 years"),
        ("faults lift", "expected the ids of faults, or --all"),
        ("faults lift 1 --all", "expected the ids of faults, or --all"),
        ("clock show --control nowhere", "expected HOST:PORT"),
        ("clock show --control 127.0.0.1:x", "expected HOST:PORT"),
        ("clock show --control ftp://127.0.0.1:1", "expected HOST:PORT"),
        ("clock show --control 127.0.0.1:1/clock", "expected HOST:PORT"),
        ("clock show --control=", "the address of the control port is missing"),
    ],
)
def test_a_bad_command_line_is_misuse(line: str, said: str) -> None:
    check_failed(run(line), MISUSED, said)


@pytest.mark.parametrize(
    "line", ["clock", "clock rate -1", "clock rate fast", "nosuch", "faults add", "records"]
)
def test_an_incomplete_command_line_is_misuse(line: str) -> None:
    assert run(line).exit_code == MISUSED


@pytest.mark.parametrize("line", COMMANDS + WAITS)
def test_without_a_control_port_every_command_fails(line: str) -> None:
    check_failed(run(f"{line} --control 127.0.0.1:1"), FAILED, "control port 127.0.0.1:1 is unreachable")


@pytest.mark.parametrize("line", COMMANDS)
def test_a_port_that_does_not_answer_ends_with_the_timeout(line: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        check_failed(run(f"{line} --control {address} --timeout 0.1"), FAILED, "did not respond within 0.1 s")


def test_the_port_of_kafkas_protocol_is_recognised_as_another_one(broker: Broker) -> None:
    done = run(f"clock show --control {broker.bootstrap} --timeout 30")
    check_failed(done, FAILED, "is it that of `klamm up --control`?")


def test_the_address_may_come_before_the_command(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    address = os.environ["KLAMM_CONTROL"]
    monkeypatch.delitem(os.environ, "KLAMM_CONTROL")
    check_failed(run("clock show"), MISUSED, "or set KLAMM_CONTROL")
    monkeypatch.setitem(os.environ, "KLAMM_CONTROL", "")  # restored after the test, whatever the command sets
    assert "virtual" in printed(f"--control http://{address} clock show")


@pytest.mark.parametrize("line", ["", "clock", "clock advance", "faults", "faults add", "story"])
def test_help_teaches_by_examples(line: str) -> None:
    done = CliRunner().invoke(app, ["ctl", *line.split(), "--help"])
    assert done.exit_code == 0
    assert len(done.stdout.splitlines()) > 5


def test_waiting_returns_when_it_is_so_and_fails_when_it_is_not(broker: Broker) -> None:
    broker.create_topic("t", 1)
    with klamm.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("t", b"1").result()
    assert printed("wait topic t") == "topic t: 1 records\n"
    with klamm.Consumer(
        "t", bootstrap_servers=broker.bootstrap, group_id="g", client_id="m", auto_offset_reset="earliest"
    ) as consumer:
        consumer.consume(1, timeout=30)
        consumer.commit()
        assert printed("wait group g --state Stable --member m --lag 0") == (
            "group g: Stable, members: m, lag 0\n"
        )
        assert as_json("wait group g --members 1")["state"] == "Stable"
    assert printed("wait group x --members 0") == "group x: Dead, members: none, lag not known\n"
    assert printed("wait event empty --group g").startswith("Group g with generation 2 is now empty")
    broker.faults.lift()
    assert as_json("faults add lose Produce")[0]["id"] == 1
    assert printed("wait fault 1 --count 0") == "fault 1: happened 0 times\n"
    late = run("wait topic t --records 2 --timeout 0.005")
    assert late.exit_code == FAILED
    assert "klamm: not so after 5ms: topic t has 1 records, expected 2" in late.stderr


def test_waiting_for_members_by_number_and_by_name_is_misuse() -> None:
    check_failed(run("wait group g --members 1 --member m"), MISUSED, "expected --members or --member")
