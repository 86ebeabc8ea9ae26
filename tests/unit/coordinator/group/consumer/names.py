"""Partitions as text: `t-0 t-1 u-2`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def numbers(text: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for name in text.split():
        topic, _, number = name.partition("-")
        found.setdefault(topic, []).append(int(number))
    return found


def shown(held: Mapping[str, Iterable[int]]) -> str:
    return " ".join(f"{topic}-{number}" for topic, each in sorted(held.items()) for number in sorted(each))


ALL = shown({"t": range(6)})
