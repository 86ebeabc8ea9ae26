"""`klamm` on a slow disk: each fdatasync takes half a second longer while the file SLOW_DISK_WHILE exists.

A process of its own, as `python -m faults.slow_disk up ...`.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from klamm.cli import main
from klamm.storage.engines.segments.files import OsFiles
from klamm.storage.engines.segments.kernel_sync import KernelSync


def slow_sync(fd: Any) -> None:
    if Path(os.environ["SLOW_DISK_WHILE"]).exists():
        time.sleep(0.5)
    os.fdatasync(fd)


def no_kernel_sync() -> None:
    """Flushes go through OsFiles.sync, on threads."""


if __name__ == "__main__":
    OsFiles.sync = staticmethod(slow_sync)
    KernelSync.open = staticmethod(no_kernel_sync)  # type: ignore[method-assign] # the process is a test's
    main()
