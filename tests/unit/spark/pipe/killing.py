"""A command of `klamm pipe` in a process that kills itself at a step: nothing is closed or undone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

MIGRATE: Final = ("fenced", "before the record", "draft written", "old one aside", "in place")
ADOPT: Final = ("before the record", "in place")
REDRIVE: Final = ("begun", "sent", "before the commit", "committed")
PATIENCE_S: Final = 30.0


def killed_at(place: str, command: str, *arguments: str | Path) -> None:
    """Run a command, which does not come further than the step `place`."""
    asked = [sys.executable, "-m", __spec__.name, place, command, *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=100, env=env)
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr


def _main(place: str, command: str, *arguments: str) -> None:
    from klamm.spark.pipe.job import load_job
    from klamm.spark.pipe.migrating import adopt, migrate
    from klamm.spark.pipe.redriving import LetterFilter, redrive

    def at(reached: str) -> None:
        if reached == place:
            os.kill(os.getpid(), signal.SIGKILL)

    path = load_job(Path(arguments[-1]))
    common: dict[str, Any] = {"timeout_s": PATIENCE_S, "at": at}
    if command == "migrate":
        migrate(path, **common)
    elif command == "adopt":
        adopt(path, arguments[0], **common)
    else:
        redrive(path, LetterFilter(), to=None, dry_run=False, **common)


if __name__ == "__main__":
    _main(*sys.argv[1:])
