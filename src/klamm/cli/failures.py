"""How a command fails: one line on standard error, and an exit code."""

from __future__ import annotations

from typing import NoReturn

import typer

from klamm.cli.exit_codes import FAILED, MISUSED
from klamm.cli.output import echo

__all__ = ["FAILED", "MISUSED", "fail"]


def fail(message: object, exit_code: int = FAILED) -> NoReturn:
    """End the command with one line on standard error."""
    echo(f"klamm: {' '.join(str(message).split())}", err=True)
    raise typer.Exit(exit_code)
