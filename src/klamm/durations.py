"""Durations as people write them: `2h`, `1h30m`, `250ms`, or a timedelta."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import lru_cache
from typing import Final

_UNITS_NS: Final = {
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d)\s*")
_LONGEST_NS: Final = 100 * 365 * _UNITS_NS["d"]  # beyond that, timestamps leave the range of clients


def nanoseconds(duration: str | timedelta) -> int:
    """A duration from zero on. Raises ValueError, TypeError."""
    if isinstance(duration, timedelta):
        found = (duration.days * 86_400 + duration.seconds) * 1_000_000_000 + duration.microseconds * 1000
    elif isinstance(duration, str):
        found = _parsed(duration)
    else:
        raise TypeError(f"invalid duration {duration!r}: expected text as '90s', or a timedelta")
    if found < 0:
        raise ValueError(f"invalid duration {duration!r}: expected zero or more")
    if found > _LONGEST_NS:
        raise ValueError(f"invalid duration {duration!r}: expected at most 100 years")
    return found


@lru_cache(maxsize=64)
def _parsed(text: str) -> int:
    stripped = text.strip().lower()
    if stripped.startswith("-"):
        raise ValueError(f"invalid duration {text!r}: expected zero or more")
    position, total = 0, 0
    while position < len(stripped) and (part := _PART.match(stripped, position)):
        if len(part[1]) > 20:
            break
        total += round(float(part[1]) * _UNITS_NS[part[2]])
        position = part.end()
    if not stripped or position != len(stripped):
        raise ValueError(f"invalid duration {text!r}: expected units ms, s, m, h, d, as in '1h30m'")
    return total
