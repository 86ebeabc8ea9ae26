"""Scripted groups of tests, and what they look at."""

from __future__ import annotations

from klamm.assignors.registry import Strategy
from klamm.testing import ScriptedGroup


def numbers(group: ScriptedGroup) -> dict[str, list[int]]:
    return {name: [each.partition for each in owned] for name, owned in group.assignment.items()}


def heard(group: ScriptedGroup, name: str) -> list[tuple[str, list[int]]]:
    return [(each.kind, [part.partition for part in each.partitions]) for each in group.callbacks(name)]


def a_group(assignor: Strategy = "range", **options: object) -> ScriptedGroup:
    return ScriptedGroup({"orders": 6}, assignor, **options)  # type: ignore[arg-type]  # passed on
