"""The specifications number their scenarios: each has a test that names its number.

A test names numbers in its name (`test_48_49_...`) or in a comment (`# scenarios 29, 35 and 36`,
`# scenarios 1, 2 of transactions`); one of transactions also as `# (64, 73)`, in a docstring
(`Scenario 74.`), or in the id of its parameters (`id="77: ..."`).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

import pytest


class Specification(NamedTuple):
    """Where the tests of a specification are, and how they name its scenarios."""

    scenarios: int
    folders: tuple[str, ...]
    names: tuple[re.Pattern[str], ...]


IN_TEST_NAME: Final = re.compile(r"def test_((?:\d+_)+)")
TRANSACTIONS: Final = Specification(
    100,
    (
        "unit/broker/apis",
        "unit/broker/coordinators",
        "unit/coordinator/group/offsets",
        "unit/coordinator/transaction",
        "unit/storage",
        "simulation",
    ),
    (
        IN_TEST_NAME,
        re.compile(r"# \((\d+(?:, \d+)*)\)"),
        re.compile(r"scenarios? (\d+(?:(?:, | and )\d+)*) of transactions"),
        re.compile(r'"""Scenario (\d+)\b'),
        re.compile(r'id="(\d+): '),
    ),
)
SEVERAL_BROKERS: Final = Specification(
    76,
    ("unit/broker/several", "unit/broker/cluster", "unit/storage", "faults"),
    (IN_TEST_NAME, re.compile(r"# scenarios? (\d+(?:(?:, | and )\d+)*)(?!.* of transactions)")),
)


@pytest.mark.parametrize("specification", [TRANSACTIONS, SEVERAL_BROKERS], ids=["transactions", "brokers"])
def test_every_scenario_of_a_specification_has_a_test(specification: Specification) -> None:
    tests = Path(__file__).parents[1]
    named = {
        int(number)
        for folder in specification.folders
        for path in (tests / folder).glob("*.py")
        for pattern in specification.names
        for found in pattern.findall(path.read_text(encoding="utf-8"))
        for number in re.findall(r"\d+", found)
    }
    assert sorted(set(range(1, specification.scenarios + 1)) - named) == []
