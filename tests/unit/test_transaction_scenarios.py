"""The specification of transactions numbers a hundred scenarios: each has a test that names its number.

A test names numbers in its name (`test_48_49_...`), in a comment or docstring (`# (64, 73)`,
`# scenarios 1, 2 of transactions`, `Scenario 74.`), or in the id of its parameters (`id="77: ..."`).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

SCENARIOS: Final = frozenset(range(1, 101))
FOLDERS: Final = (
    "unit/broker/apis",
    "unit/broker/coordinators",
    "unit/coordinator/group/offsets",
    "unit/coordinator/transaction",
    "unit/storage",
    "simulation",
)
NAMES: Final = (
    re.compile(r"def test_((?:\d+_)+)"),
    re.compile(r"# \((\d+(?:, \d+)*)\)"),
    re.compile(r"scenarios? (\d+(?:(?:, | and )\d+)*) of transactions"),
    re.compile(r'"""Scenario (\d+)\b'),
    re.compile(r'id="(\d+): '),
)


def test_every_scenario_of_the_specification_has_a_test() -> None:
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
