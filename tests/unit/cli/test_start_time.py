"""What commands import: time that a user waits for each of them."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

import klamm


def imported(*arguments: str, is_pure: bool = False) -> tuple[str, set[str]]:
    """The output of a command, and the modules that it imported."""
    code = (
        "import atexit, sys; sys.argv = ['klamm', *sys.argv[1:]]\n"
        "atexit.register(lambda: sys.stderr.write('\\n'.join(sys.modules)))\n"
        "from klamm.cli import main; main()"
    )
    path = {"PYTHONPATH": ":".join(filter(None, sys.path)), "KLAMM_PURE": str(int(is_pure))}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=path, check=False
    )
    return done.stdout, set(done.stderr.splitlines())


def test_the_version_is_printed_without_importing_anything_large() -> None:
    output, modules = imported("--version")
    assert output.startswith("klamm ")
    assert not {"typer", "asyncio", "klamm.client.admin.admin", "klamm.broker.broker"} & modules
    # Each of these takes as long to import as all of klamm that is needed here.
    assert not {"typing", "re", "dataclasses", "inspect"} & modules


def test_a_broker_starts_without_modules_that_only_some_need() -> None:
    code = "import sys, klamm\nwith klamm.Broker(): print('\\n'.join(sys.modules))"
    path = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=path, check=True)
    modules = set(done.stdout.splitlines())
    assert "klamm.broker.broker" in modules
    # Names in ASCII need no codec; metrics and the cleaner come later, if at all.
    assert not {"encodings.idna", "klamm.broker.metrics.metrics", "klamm.broker.upkeep.cleaning"} & modules
    # Each of these takes some milliseconds.
    assert not {"pathlib", "cramjam", "hashlib"} & modules


def test_klamm_up_starts_without_modules_that_only_some_need(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:  # so that it ends, with its storage open
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        _, modules = imported("up", "--listen", address, "--data", str(tmp_path / "data"))
    assert {"klamm.storage.engines.sqlite_cluster", "klamm.storage.engines.segments.store"} <= modules
    assert not {"pathlib", "cramjam", "hashlib", "typer", "klamm.testing"} & modules


@pytest.mark.parametrize("is_pure", [False, True])
def test_topics_are_listed_without_the_command_line_library_and_a_client(is_pure: bool) -> None:
    with klamm.Broker() as broker:
        with klamm.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([klamm.NewTopic("orders", 3)])
        output, modules = imported("topics", "list", "-b", broker.bootstrap, is_pure=is_pure)
    assert output == "TOPIC   PARTITIONS\norders           3\n"
    unneeded = {"typer", "rich", "asyncio", "json", "threading", "klamm.client.runtime", "klamm.net.reactor"}
    assert not unneeded & modules


@pytest.mark.parametrize(
    "command",
    [("topics", "list"), ("groups", "list"), ("health",)],
)
def test_a_command_imports_only_what_it_uses(command: tuple[str, ...]) -> None:
    _, modules = imported(*command, "-b", "127.0.0.1:1", "--timeout", "0.1")
    assert "klamm.client.admin.admin" in modules
    unneeded = {"rich", "asyncio", "uvloop", "klamm.broker.broker", "klamm.client.producer.producer"}
    if command[0] != "groups":  # `groups explain` reads events
        unneeded |= {"klamm.client.consumer.consumer"}
    assert not unneeded & modules
