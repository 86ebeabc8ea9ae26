"""The specifications number their scenarios: each has a test that names its number.

A comment names them (`# scenarios 29, 35 and 36`, `# scenarios 1, 2 of transactions`); one of transactions
also as `# (64, 73)`, in a docstring (`Scenario 74.`), or in the id of its parameters (`id="77: ..."`).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Final, NamedTuple

import pytest


class Specification(NamedTuple):
    """Where the tests of a specification are, and how they name its scenarios."""

    scenarios: Collection[int]
    folders: tuple[str, ...]
    names: tuple[re.Pattern[str], ...]


TRANSACTIONS: Final = Specification(
    range(1, 101),
    (
        "unit/broker/apis",
        "unit/broker/coordinators",
        "unit/coordinator/group/offsets",
        "unit/coordinator/transaction",
        "unit/storage",
        "simulation",
    ),
    (
        re.compile(r"# \((\d+(?:, \d+)*)\)"),
        re.compile(r"scenarios? (\d+(?:(?:, | and )\d+)*) of transactions"),
        re.compile(r'"""Scenario (\d+)\b'),
        re.compile(r'id="(\d+): '),
    ),
)
SEVERAL_BROKERS: Final = Specification(
    range(1, 77),
    ("unit/broker/several", "unit/broker/cluster", "unit/storage", "faults"),
    (re.compile(r"# scenarios? (\d+(?:(?:, | and )\d+)*)(?!.* of transactions)"),),
)
CONSUMER_GROUPS: Final = Specification(
    set(range(1, 90)) - {11},  # share groups, which klamm does not have
    (
        "unit/broker/coordinators",
        "unit/broker/security",
        "unit/client/consumer/group",
        "unit/coordinator/group/consumer",
        "unit/coordinator/group/mixed",
    ),
    (re.compile(r"# scenarios? (\d+(?:, \d+)*) of consumer groups"),),
)


@pytest.mark.parametrize(
    "specification",
    [TRANSACTIONS, SEVERAL_BROKERS, CONSUMER_GROUPS],
    ids=["transactions", "brokers", "consumer groups"],
)
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
    assert sorted(set(specification.scenarios) - named) == []


def test_no_test_has_a_number_for_a_name() -> None:
    tests = Path(__file__).parents[1]
    numbered = re.compile(r"def (test_\d+_\w+)")
    assert [name for path in tests.rglob("*.py") for name in numbered.findall(path.read_text())] == []
