"""The chosen differences from Apache Kafka: documented from the table that the comparison uses."""

from __future__ import annotations

from functools import reduce
from importlib import import_module
from pathlib import Path

from interop.differential.deliberate import DELIBERATE, page

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_made_from_the_table() -> None:
    assert (DOCS / "differences.md").read_text(encoding="utf-8") == page()


def test_what_is_kept_out_of_the_comparison_names_the_place() -> None:
    for row in DELIBERATE:
        if row.kept_out_by is not None:
            module, *names = row.kept_out_by.split(".")
            place = reduce(getattr, names, import_module(f"interop.differential.{module}"))
            assert callable(place)


def test_every_case_is_named_once() -> None:
    cases = [row.case for row in DELIBERATE]
    assert len(set(cases)) == len(cases)
