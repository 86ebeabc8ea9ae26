"""Every command: the same exit codes, one line on standard error, and a timeout that holds."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

import klamm
from klamm.cli.app import COMMANDS, LazyGroup, app
from klamm.cli.exit_codes import FAILED, INTERRUPTED, MISUSED

ROOT = Path(__file__).parents[3]
TIMEOUT_S = 0.4
# Command lines that are valid and need a cluster, by command; every subcommand is here.
LINES = {
    "topics create": "topics create t",
    "topics list": "topics list",
    "topics describe": "topics describe t",
    "topics delete": "topics delete t",
    "topics offsets": "topics offsets t",
    "topics trim": "topics trim t --before end",
    "topics alter": "topics alter t --partitions 3",
    "produce": "produce t",
    "consume": "consume t --exit",
    "groups list": "groups list",
    "cluster health": "cluster health",
    "doctor": "doctor",
    "groups describe": "groups describe g",
    "groups members": "groups members g",
    "groups delete": "groups delete g",
    "groups remove-member": "groups remove-member g --all",
    "groups explain": "groups explain g",
    "groups diagnose": "groups diagnose g",
    "groups inspect": "groups inspect g",
    "groups migrate": "groups migrate g --dry-run",
    "groups trace": "groups trace g --for 1",
    "offsets show": "offsets show g",
    "offsets reset": "offsets reset g --topic t --to-latest",
    "offsets export": "offsets export g",
    "offsets import": "offsets import g -",
    "offsets delete": "offsets delete g t",
    "txns list": "txns list",
    "txns describe": "txns describe x",
    "txns inspect": "txns inspect x",
    "txns hanging": "txns hanging --topic t",
    "txns abort": "txns abort x",
    "configs show": "configs show --topic t",
    "configs alter": "configs alter --topic t --set retention.ms=1000",
    "cluster describe": "cluster describe",
    "cluster moves": "cluster moves",
    "cluster rebalance": "cluster rebalance",
    "cluster log-dirs": "cluster log-dirs",
    "cluster features": "cluster features",
    "health": "health",
    "acls list": "acls list",
    "acls add": "acls add alice --can read --topic t",
    "acls remove": "acls remove alice --topic t",
    "acls check": "acls check alice --can read --topic t",
    "users list": "users list",
    "users set": "users set alice --password-file -",
    "users delete": "users delete alice",
    "quotas list": "quotas list",
    "quotas set": "quotas set producer_byte_rate=1000 --user alice",
    "quotas remove": "quotas remove --user alice",
    "quotas check": "quotas check --user alice --client-id c",
}
# What does not exist is an error, where something is named.
NOT_FOUND = [
    "topics describe t",
    "topics delete t",
    "topics offsets t",
    "topics trim t --before end",
    "topics alter t --partitions 3",
    "topics alter t --config retention.ms=1",
    "consume t --exit",
    "groups describe g",
    "groups members g",
    "groups delete g",
    "offsets reset g --topic t --to-latest",
    "txns describe x",
    "txns hanging --topic t",
    "configs show --topic t",
    "configs alter --topic t --set retention.ms=1000",
]
BAD_ARGUMENTS = [
    "nosuch",
    "topics nosuch",
    "topics create",
    "topics create t --nosuch",
    "topics create t --config nonsense",
    "topics create t --partitions many",
    "topics offsets t --at yesterday",
    "topics alter t",
    "produce t --delimiter ''",
    "produce t --set nosuch=1",
    "consume t --format %Z",
    "consume t --offset soon",
    "consume t --group g --partition 0",
    "groups describe",
    "groups remove-member g",
    "offsets reset g --topic t",
    "offsets reset g --topic t --to-datetime soon",
    "txns abort",
    "configs show",
    "configs alter --topic t",
    "health --timeout soon",
    "--log-level loud topics list",
    "--profile nosuch topics list",
]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "KLAMM_BOOTSTRAP", "127.0.0.1:1")


@pytest.fixture(autouse=True, scope="module")
def imported() -> None:
    """The modules of all commands, so that the time of a command is not that of its imports."""
    subcommands()
    assert {klamm.Producer, klamm.Consumer, klamm.Admin}


@pytest.fixture(scope="module")
def silent() -> Iterator[str]:
    """An address that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture(scope="module")
def broker() -> Iterator[klamm.Broker]:
    with klamm.Broker(settings={"auto.create.topics.enable": "false"}) as running:
        yield running


def run(line: str, *more: str) -> Result:
    words = [word.strip("'") for word in line.split(" ")]
    return CliRunner().invoke(app, [*words, *more], input="a line\n" if words[0] == "produce" else "t,0,1\n")


def check_failed(done: Result, exit_code: int) -> None:
    assert done.exit_code == exit_code, (done.output, done.exception)
    assert "Traceback" not in done.output
    assert re.match(r"klamm: [^\n]+\n", done.stderr) or exit_code == MISUSED, done.stderr


def subcommands() -> set[str]:
    """All commands that have an option --timeout."""
    found = set()
    context = typer.main.get_command(app).make_context("klamm", ["health"], resilient_parsing=True)
    group = context.command
    assert isinstance(group, LazyGroup)
    for name in COMMANDS:
        command = group.get_command(context, name)
        for key, item in (getattr(command, "commands", None) or {"": command}).items():
            if any("--timeout" in option.opts for option in item.params):
                found.add(f"{name} {key}".strip())
    return found


def test_every_command_with_a_timeout_is_tested_here() -> None:
    # `move` has two addresses: see move/test_move.py. `ctl`: see test_ctl.py. `pipe` needs Spark.
    found = {name for name in subcommands() if not name.startswith(("ctl ", "pipe"))}
    assert found - {"audit", "demo", "move"} == set(LINES)


@pytest.mark.parametrize("command", sorted(LINES))
@pytest.mark.parametrize("cluster", ["away", "silent"])
def test_without_a_cluster_every_command_fails_in_time(command: str, cluster: str, silent: str) -> None:
    address = silent if cluster == "silent" else "127.0.0.1:1"
    started = time.monotonic()
    done = run(LINES[command], "--bootstrap", address, "--timeout", str(TIMEOUT_S))
    check_failed(done, FAILED)
    # Less than the default of ten seconds, and enough for a machine under load.
    assert time.monotonic() - started < TIMEOUT_S + 8


@pytest.mark.parametrize("line", NOT_FOUND)
def test_what_does_not_exist_is_a_failure(line: str, broker: klamm.Broker) -> None:
    check_failed(run(line, "--bootstrap", broker.bootstrap, "--timeout", "10"), FAILED)


@pytest.mark.parametrize("line", BAD_ARGUMENTS)
def test_a_bad_command_line_is_misuse(line: str) -> None:
    check_failed(run(line), MISUSED)


@pytest.mark.parametrize("command", ["topics list", "groups describe", "produce"])
def test_an_interrupted_command_says_so_by_its_exit_code(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_arguments: object, **_keywords: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("klamm.client.admin.operations_host.OperationsHost._run", interrupted)
    monkeypatch.setattr("klamm.client.producer.producer.Producer.send", interrupted)
    done = run(LINES[command])
    assert (done.exit_code, done.stdout) == (INTERRUPTED, "")


def test_the_timeout_is_for_all_operations_of_a_command(broker: klamm.Broker) -> None:
    with klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.describe_cluster()
        admin._operations.end_after(0)
        with pytest.raises(klamm.KlammTimeoutError):
            admin.describe_cluster(timeout=60)


def test_the_table_of_exit_codes_is_in_the_documentation() -> None:
    text = (ROOT / "docs" / "cli.md").read_text()
    for code in (0, FAILED, MISUSED, INTERRUPTED):
        assert re.search(rf"(?m)^\| {code} \|", text)
