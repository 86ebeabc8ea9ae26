"""The specification of several brokers numbers 76 scenarios: each has a test that names its number.

A test names numbers in its name (`test_20_...`) or in a comment (`# scenarios 29, 35 and 36`).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

SCENARIOS: Final = frozenset(range(1, 77))
FOLDERS: Final = ("unit/broker/several", "unit/broker/cluster", "unit/storage", "faults")
NAMES: Final = (
    re.compile(r"def test_((?:\d+_)+)"),
    re.compile(r"# scenarios? (\d+(?:(?:, | and )\d+)*)(?!.* of transactions)"),
)


def test_every_scenario_of_several_brokers_has_a_test() -> None:
    tests = Path(__file__).parents[1]
    named = {
        int(number)
        for folder in FOLDERS
        for path in (tests / folder).glob("*.py")
        for pattern in NAMES
        for found in pattern.findall(path.read_text(encoding="utf-8"))
        for number in re.findall(r"\d+", found)
    }
    assert sorted(SCENARIOS - named) == []
