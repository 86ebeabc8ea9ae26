"""What commands print: names and messages come from a cluster, and must not control the terminal."""

from __future__ import annotations

from typing import Final

import typer

from klamm.printable import printable, printable_lines

_MOST_OF_A_LINE: Final = 10_000  # characters


def echo(text: object = "", *, err: bool = False) -> None:
    """Print one line."""
    typer.echo(printable(str(text), _MOST_OF_A_LINE), err=err)


def echo_lines(text: str) -> None:
    """Print several lines, each made of texts that have no line ends of their own."""
    typer.echo(printable_lines(text))
