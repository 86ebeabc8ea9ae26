"""`klamm` on a disk that hangs: no flush ends while the file HANGING_DISK_WHILE exists.

A process of its own, as `python -m faults.hanging_disk up ...`. It prints a line for each flush that hangs.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from typing import Any, Final

from klamm.cli import main
from klamm.storage.engines.segments import kernel_sync
from klamm.storage.engines.segments.files import OsFiles
from klamm.storage.engines.segments.kernel_sync import KernelSync

_while: Final = Path(os.environ["HANGING_DISK_WHILE"])
_sync = os.fdatasync
_open = KernelSync.open.__func__  # type: ignore[attr-defined] # a class method has it


def wait_for_the_disk() -> None:
    if _while.exists():
        sys.stdout.write("a flush hangs\n")
        sys.stdout.flush()
    while _while.exists():
        time.sleep(0.01)


def hanging_sync(fd: Any) -> None:
    wait_for_the_disk()
    _sync(fd)


class HangingKernelSync(KernelSync):
    """The kernel takes a file at once, and flushes it when the disk works again."""

    def submit(self, handles: Sequence[int], tags: Sequence[int]) -> int:
        Thread(target=self._submit_later, args=(list(handles), list(tags)), daemon=True).start()
        return len(handles)

    def _submit_later(self, handles: Sequence[int], tags: Sequence[int]) -> None:
        wait_for_the_disk()
        super().submit(handles, tags)


if __name__ == "__main__":
    os.fdatasync = hanging_sync
    OsFiles.sync = staticmethod(hanging_sync)
    kernel_sync._compiled = lambda: None
    KernelSync.open = staticmethod(lambda: _open(HangingKernelSync))  # type: ignore[method-assign] # as above
    main()
