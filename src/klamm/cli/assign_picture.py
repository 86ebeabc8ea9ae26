"""Assignments side by side, as an SVG image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from klamm.assignors.comparing import Result, Shares

_CELL, _GAP, _ROW, _TITLE, _NAMES = 46, 4, 30, 34, 110
_COLORS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#9d755d", "#eeca3b")


def picture(results: Sequence[Result]) -> str:
    """A block for each assignor, a row for each member; a partition that moved has a dark frame."""
    topics = sorted({each.topic for result in results for held in result.before.values() for each in held})
    colors = {topic: _COLORS[number % len(_COLORS)] for number, topic in enumerate(topics)}
    most = max((len(held) for result in results for held in _all(result)), default=0)
    width = _NAMES + max(most, 4) * (_CELL + _GAP) + 20
    top, parts = 10, list[str]()
    for result in results:
        block = list(_block(result, colors, top))
        parts += block
        top += _TITLE + _ROW * _rows(result) + 12
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" '
        f'font-family="sans-serif" font-size="12">\n<rect width="{width}" height="{top}" fill="white"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _all(result: Result) -> Iterator[Sequence[object]]:
    yield from result.before.values()
    yield from (result.after or {}).values()


def _rows(result: Result) -> int:
    return len(result.before) + (0 if result.after is None else 1 + len(result.after))


def _block(result: Result, colors: dict[str, str], top: int) -> Iterator[str]:
    moved = set(result.moved)
    title = f"{result.assignor}: most - least {result.unevenness}"
    if result.after is not None:
        title += f", {len(moved)} moved although the owner stays"
    yield f'<text x="10" y="{top + 18}" font-weight="bold">{escape(title)}</text>'
    at = top + _TITLE
    yield from _shares(result.before, colors, at, frozenset())
    if result.after is not None:
        at += _ROW * len(result.before)
        yield f'<text x="10" y="{at + 19}" fill="#666">after the change</text>'
        yield from _shares(result.after, colors, at + _ROW, frozenset(moved))


def _shares(shares: Shares, colors: dict[str, str], top: int, moved: frozenset[object]) -> Iterator[str]:
    for number, (member, held) in enumerate(shares.items()):
        y = top + number * _ROW
        yield f'<text x="10" y="{y + 19}">{escape(member)}</text>'
        for place, partition in enumerate(held):
            x = _NAMES + place * (_CELL + _GAP)
            frame = ' stroke="black" stroke-width="2.5"' if partition in moved else ""
            color = colors.get(partition.topic, "#888")
            yield f'<rect x="{x}" y="{y + 2}" width="{_CELL}" height="24" rx="3" fill="{color}"{frame}/>'
            label = escape(str(partition))
            yield f'<text x="{x + _CELL // 2}" y="{y + 18}" text-anchor="middle" fill="white">{label}</text>'
