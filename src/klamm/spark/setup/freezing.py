"""Excludes imported modules from garbage collection in Spark's Python processes."""

from __future__ import annotations

import gc
import os
from typing import Final

_frozen: Final[set[int]] = set()


def freeze_once() -> None:
    """Take what is there out of the full collection that Spark runs after every task: 35 ms each time."""
    if os.getpid() not in _frozen:
        _frozen.add(os.getpid())
        gc.collect()
        gc.freeze()
