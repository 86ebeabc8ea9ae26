"""`klamm demo` keeps its promises: every order counted, by the group and by Spark; nothing left running."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from interop.processes import ROOT, inherited_environment

COMMAND = (sys.executable, "-m", "klamm", "demo", "--plain")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**inherited_environment(), "PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(tmp_path)}


def start(environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    """The demo in a session of its own, by which its children are known."""
    return subprocess.Popen(
        [*COMMAND, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def running(session: int, folder: Path) -> list[str]:
    """Processes of a session, and others that were started on something in a folder."""
    columns = ["ps", "-eo", "sid=,stat=,args="]
    listed = subprocess.run(columns, capture_output=True, text=True, check=True).stdout
    lines = [line.split(None, 2) for line in listed.splitlines()]
    # A zombie has ended: the init process has not collected it yet.
    return [
        args
        for sid, status, args in lines
        if (int(sid) == session or str(folder) in args) and not status.startswith("Z")
    ]


def test_the_demo_counts_every_order_twice_over(environment: dict[str, str], tmp_path: Path) -> None:
    demo = start(environment, "--pace", "0.5")
    said, errors = demo.communicate(timeout=300)
    assert demo.returncode == 0, said + errors
    sent = re.search(r"^([0-9]+) orders were sent\. The group read every one of them", said, re.M)
    counted = re.search(r"^Spark counted ([0-9]+) orders .* its group has no lag\.", said, re.M)
    assert sent is not None
    assert counted is not None
    assert sent[1] == counted[1]
    assert "silent for its session timeout: bert" in said, "the kill is told as what it was"
    assert "kill -9 for the broker" in said
    assert "each exactly once" in said
    report = tmp_path / "klamm-audit-of-the-demo.html"
    assert said.rstrip().endswith(str(report))
    assert "revenue-job" in report.read_text()
    assert list(tmp_path.glob("klamm-demo-*")) == []
    assert running(demo.pid, tmp_path) == []
    assert errors == "", "neither Java nor Spark spoils the picture"


@pytest.mark.parametrize(
    ("number", "moment", "code"),
    [
        (signal.SIGINT, "starting a broker", 130),
        (signal.SIGTERM, "generation 1", 130),
        (signal.SIGKILL, "join the group", -signal.SIGKILL),
    ],
)
def test_an_interrupted_demo_leaves_nothing_running(
    environment: dict[str, str], tmp_path: Path, number: signal.Signals, moment: str, code: int
) -> None:
    with start(environment, "--no-spark") as demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        for line in demo.stdout:
            if moment in line:
                break
        demo.send_signal(number)
        assert demo.wait(60) == code
        if code == 130:
            assert "nothing is left running" in demo.stderr.read()
            assert running(demo.pid, tmp_path) == []
            assert list(tmp_path.glob("klamm-demo-*")) == []
    # Whoever is not told to end finds that nobody is there any more.
    deadline = time.monotonic() + 60
    while running(demo.pid, tmp_path):
        assert time.monotonic() < deadline
        time.sleep(0.05)
