"""Numbers, durations and lists as findings show them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MAX_NAMED: Final = 6
_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))


def duration(duration_ms: float) -> str:
    """To two or three digits, in the unit that fits: `950 ms`, `12.3 s`, `4.1 min`, `26.0 h`, `6.2 d`."""
    for unit, size_ms in _UNITS:
        if abs(duration_ms) >= (2 if unit == "d" else 1) * size_ms:
            return f"{duration_ms / size_ms:.1f} {unit}"
    return f"{duration_ms:.0f} ms"


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(items: Iterable[object]) -> str:
    """The first few by name, and how many more there are."""
    names = [str(item) for item in items]
    shown = ", ".join(names[:MAX_NAMED])
    return shown if len(names) <= MAX_NAMED else f"{shown} and {len(names) - MAX_NAMED} more"


def rate(records: float, over_ms: float) -> str:
    """Records in a time as records per second."""
    per_s = records * 1000 / over_ms
    return f"{per_s:,.0f} records/s" if per_s >= 10 else f"{per_s:.2g} records/s"
