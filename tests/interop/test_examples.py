"""The examples run as they are, without arguments, and show what they promise."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SHOWN = {
    "produce_and_consume": ["the last one is at offset 3", "customer 1 - order 5"],
    "consumer_group": ["anna leaves", "  bert gets jobs-0 jobs-1", "300 jobs, each done 1 time"],
    "transactions": [
        "the first run crashed at order 12",
        "invoices after the crash: 10",
        "invoices after the second run: 20, of 20 orders",
    ],
    "offsets_elsewhere": ["the first run crashed at 12", "the sum is 190, of 190"],
    "broadcast": ["anna read 6, bert read 6", "anna goes on with late"],
    "racks": [
        "2 of 4 leaders are in east",
        "2 of 4 leaders are in west",
        "rack-leader: 4 of 4 partitions are read in the rack of their leader",
    ],
    "transaction_steps": [
        "killed after init: Empty; its heir leaves Empty; readers see 0",
        "killed after offsets: Ongoing; its heir leaves Empty; readers see 0",
        "killed after commit: CompleteCommit; its heir leaves Empty; readers see 1",
    ],
    "delivery_guarantees": [
        "at most once: 19 invoices of 20 orders, lost [12], twice []",
        "at least once: 21 invoices of 20 orders, lost [], twice [12]",
        "exactly once: 20 invoices of 20 orders, lost [], twice []",
    ],
    "fastapi_service": [
        "half of the orders, at least, were accepted: True",
        "accepted orders without an invoice: 0",
        "orders with two invoices: 0",
    ],
    "asyncio_client": ["sent up to offset 19", "the warmest was 66.2"],
}

TESTS = {"broker_in_tests": 3, "kafka_tests": 21, "replacing_testcontainers": 5}


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_shows_what_it_promises(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in SHOWN[name] if line not in lines] == [], lines


@pytest.mark.parametrize(("name", "count"), TESTS.items())
def test_the_examples_for_tests_pass_their_own(name: str, count: int) -> None:
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{count} passed" in done.stdout


def test_every_example_is_run_somewhere() -> None:
    elsewhere = {"own_assignor", "lag_assignor", "spark_pipeline"}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == SHOWN.keys() | TESTS.keys() | elsewhere
