"""Work that waits for the disk, several at a time: a file system commits once for all that wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeAlias

from klamm.storage.log import Work

RunAll: TypeAlias = Callable[[Sequence[Work]], None]

LANES: Final = 16


def one_by_one(works: Sequence[Work]) -> None:
    """On the caller's thread, in their order."""
    for work in works:
        work()


def in_threads(works: Sequence[Work]) -> None:
    """In several threads, in any order."""
    if not works:
        return
    with ThreadPoolExecutor(min(LANES, len(works)), thread_name_prefix="klamm-disk") as executor:
        outcomes = [executor.submit(work) for work in works]
    for outcome in outcomes:
        outcome.result()
