"""Several brokers that are started together: `broker.rack=east,west` gives them racks by turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

RACK: Final = "broker.rack"
Value = TypeVar("Value")


def own_rack(settings: Mapping[str, Value], number: int) -> dict[str, str]:
    """The rack of one of several brokers, counted from 0; empty if none is set."""
    given = settings.get(RACK)
    if given is None:
        return {}
    racks = [each.strip() for each in str(given).split(",")]
    return {RACK: racks[number % len(racks)]}
