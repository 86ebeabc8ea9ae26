"""Failed tests of real programs are run once more, which is counted: tools/real_tests.sh."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools/real_tests.sh"
FLAKY = """
from pathlib import Path

def test_once():
    seen = Path(__file__).with_suffix(".seen")
    was_seen = seen.exists()
    seen.touch()
    assert was_seen
"""
BROKEN = "def test_never():\n    assert False\n"


class Stage:
    """Stages in a folder of their own, as `make test` runs them one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environ = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "KLAMM"))
        }
        return subprocess.run(
            ["bash", SCRIPT, *arguments],
            cwd=self.folder,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )

    def run(self, name: str, **files: str) -> subprocess.CompletedProcess[str]:
        stage = self.folder / name
        stage.mkdir(exist_ok=True)
        for file, text in files.items():
            (stage / f"test_{file}.py").write_text(text)
        return self.call(name, sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", name)

    def report(self) -> list[str]:
        return self.call("--report").stdout.splitlines()


@pytest.fixture
def stages(tmp_path: Path) -> Stage:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return Stage(tmp_path)


def test_a_test_that_fails_once_is_counted(stages: Stage) -> None:
    first = stages.run("faults", flaky=FLAKY)
    assert first.returncode == 0, first.stdout + first.stderr
    assert "passed the second time only" in first.stdout
    assert stages.report() == [
        "tests that passed the second time only: 1",
        "   faults faults/test_flaky.py::test_once",
    ]
    assert stages.run("faults", flaky=FLAKY).returncode == 0  # it has passed at once: forgotten
    assert stages.report() == ["tests that passed the second time only: 0"]


def test_a_second_file_is_not_run_once_more_in_whichever_stage(stages: Stage) -> None:
    both = stages.run("faults", flaky=FLAKY, other=FLAKY)
    assert both.returncode == 1
    assert "more than one file" in both.stdout
    assert stages.run("interop", flaky=FLAKY).returncode == 0
    later = stages.run("spark", flaky=FLAKY)
    assert later.returncode == 1
    assert "   interop/test_flaky.py\n   spark/test_flaky.py" in later.stdout
    assert stages.call("--forget").returncode == 0
    assert stages.report() == ["tests that passed the second time only: 0"]


def test_a_test_that_fails_twice_fails_its_stage(stages: Stage) -> None:
    assert stages.run("faults", broken=BROKEN).returncode == 1
    assert stages.report() == ["tests that passed the second time only: 0"]
