"""`klamm demo` keeps its promises: every order counted, by the group and by Spark; nothing left running."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interop.processes import ROOT, inherited_environment

COMMAND = (sys.executable, "-m", "klamm", "demo", "--plain")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**inherited_environment(), "PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(tmp_path)}


def children_of(folder: Path) -> list[str]:
    """Processes that were started on something in a folder."""
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if str(folder) in line and " ps " not in line]


def test_the_demo_counts_every_order_twice_over(environment: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--pace", "1"], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    sent = re.search(r"^([0-9]+) orders were sent\. The group read every one of them", done.stdout, re.M)
    counted = re.search(r"^Spark counted ([0-9]+) orders .* its group has no lag\.$", done.stdout, re.M)
    assert sent is not None
    assert counted is not None
    assert sent[1] == counted[1]
    assert "silent for its session timeout: bert" in done.stdout, "the kill is told as what it was"
    assert list(tmp_path.glob("klamm-demo-*")) == []
    assert children_of(tmp_path) == []


def test_an_interrupted_demo_leaves_nothing_running(environment: dict[str, str], tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "--no-spark"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            if "generation 1" in line:
                break
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert "nothing is left running" in process.stderr.read()
    assert children_of(tmp_path) == []
