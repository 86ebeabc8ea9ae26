"""Plain tables as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from klamm.printable import printable

MOST_OF_A_CELL: Final = 500  # a topic's name has up to 249 characters


def table_lines(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """A plain table: columns as wide as their longest cell, numbers aligned right, no wrapping."""
    texts = [[printable(str(cell), MOST_OF_A_CELL) for cell in row] for row in rows]
    if not texts:
        return
    numeric = [all(_is_number(row[index]) for row in texts) for index in range(len(columns))]
    widths = [max(len(columns[i]), *(len(row[i]) for row in texts)) for i in range(len(columns))]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(cells, widths, numeric, strict=True)
        )
        return "  ".join(padded).rstrip()

    yield line([column.upper() for column in columns])
    for row in texts:
        yield line(row)


def _is_number(text: str) -> bool:
    return text == "-" or text.lstrip("-").replace(".", "", 1).isdigit()
