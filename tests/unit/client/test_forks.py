"""Clients in a forked child: each call is refused with what to do, closing is quiet, the parent goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("forking.py")
REFUSED = "this client was made before fork(); make a new one in the child process"
QUIET = ("close", "stop")


@pytest.fixture(scope="module")
def found() -> dict[str, str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        timeout=110,
    )
    outcomes: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return outcomes


def test_each_call_of_an_inherited_client_is_refused(found: dict[str, str]) -> None:
    calls = {
        name: said
        for name, said in found.items()
        if not name.startswith(("_", "new")) and not name.endswith(QUIET) and not name.endswith("health")
    }
    assert {name: said for name, said in calls.items() if REFUSED not in said} == {}
    assert len(calls) >= 35


def test_the_health_of_an_inherited_client_says_so(found: dict[str, str]) -> None:
    assert [REFUSED in found[name] for name in ("producer.health", "consumer.health")] == [True, True]


def test_closing_an_inherited_client_returns_at_once_and_does_nothing(found: dict[str, str]) -> None:
    closed = {name: said for name, said in found.items() if name.endswith(QUIET)}
    assert {
        name: said for name, said in closed.items() if said not in ("returned None", "returned True")
    } == {}
    assert len(closed) >= 14


def test_a_client_that_is_made_in_the_child_works_and_those_of_the_parent_go_on(
    found: dict[str, str],
) -> None:
    assert found["new.send"] == "returned t"
    # Ten at first, one of the asyncio producer, one of the child, two of the parent that waited.
    assert int(found["_end"]) == 10 + 1 + 1 + 2
