"""What Spark's Python processes do once, so that their tasks take less time."""

from __future__ import annotations

import ctypes
import gc
import os
from typing import Final

_frozen: Final[set[int]] = set()
# Parameters of mallopt.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_MAX_MMAP_THRESHOLD: Final = 32 << 20  # the largest that glibc takes
_KEPT_BYTES: Final = 256 << 20


def freeze_once() -> None:
    """Prepare this process, the first time that it is called in it."""
    if os.getpid() not in _frozen:
        _frozen.add(os.getpid())
        keep_freed_memory()
        # Out of the full collection that Spark runs after every task: 35 ms each time.
        gc.collect()
        gc.freeze()


def keep_freed_memory() -> None:
    """Let malloc keep buffers of megabytes that are freed, for the next ones.

    It would return them to the system, which clears each page when it is used again: a tenth of the time of
    reading. Where malloc is not glibc's, nothing is done.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(_MMAP_THRESHOLD, _MAX_MMAP_THRESHOLD)
    mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
