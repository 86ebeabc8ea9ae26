"""How long to warm a broker up before its figures count."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

WINDOWS: Final = 6  # in the shortest warm-up
_STILL: Final = 1.03  # a figure that grows by less is noise
_AT_MOST: Final = 4  # times the shortest warm-up; a busy machine never stands still


def warm_up(measure: Callable[[], float], least_s: float, clock: Callable[[], float] = time.monotonic) -> int:
    """Call `measure`, whose result is better the higher it is, until the result does not grow any more.

    That takes `least_s` seconds at least. Returns how often it was called.
    """
    started_at = clock()
    figures: list[float] = []
    while True:
        figures.append(measure())
        took_s = clock() - started_at
        if took_s < least_s:
            continue
        before, lately = figures[:-2], figures[-2:]
        if (before and max(lately) < max(before) * _STILL) or took_s >= least_s * _AT_MOST:
            return len(figures)
