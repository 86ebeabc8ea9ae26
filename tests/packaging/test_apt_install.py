"""Installing packages waits for the package manager's locks."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "apt_install.sh"
LOCKED = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (apt)"


def install(
    folder: Path, *, failures: int, message: str, limit: int = 60
) -> subprocess.CompletedProcess[str]:
    """Run the tool with an apt-get whose first `failures` updates fail."""
    program = folder / "apt-get"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {folder}/calls\n'
        f'if [ "$1" = update ] && [ $(grep -c update {folder}/calls) -le {failures} ]; then\n'
        f'  echo "{message}" >&2; exit 100\nfi\n'
    )
    program.chmod(0o755)
    sleep = folder / "sleep"
    sleep.write_text("#!/bin/sh\n")
    sleep.chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "TMPDIR": str(folder),
        "KLAMM_APT_TIMEOUT": str(limit),
    }
    return subprocess.run([TOOL, "kcat"], capture_output=True, text=True, env=env, check=False, timeout=60)


@pytest.mark.parametrize(
    ("failures", "message", "limit", "status", "updates"),
    [(2, LOCKED, 60, 0, 3), (1, "E: no network", 60, 1, 1), (9, LOCKED, 0, 1, 1)],
)
def test_a_lock_is_waited_for_and_other_failures_are_not(
    tmp_path: Path, failures: int, message: str, limit: int, status: int, updates: int
) -> None:
    done = install(tmp_path, failures=failures, message=message, limit=limit)
    assert done.returncode == status, done.stderr
    calls = (tmp_path / "calls").read_text().splitlines()
    assert sum(call.startswith("update") for call in calls) == updates
    if status == 0:
        assert calls[-1] == f"-o DPkg::Lock::Timeout={limit} install -y -qq --no-install-recommends kcat"
        assert "waiting for the package manager" in done.stdout
    else:
        assert message in done.stderr
