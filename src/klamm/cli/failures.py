"""How a command says that it cannot: one line that tells what to do, and an exit code."""

from __future__ import annotations

from typing import Final, NoReturn

import typer

FAILED: Final = 1  # the world is not as it should be: a port is taken, a folder is in use
MISUSED: Final = 2  # the command line or a setting cannot be


def fail(message: object, exit_code: int = FAILED) -> NoReturn:
    """End the command with one line on standard error."""
    typer.echo(f"klamm: {' '.join(str(message).split())}", err=True)
    raise typer.Exit(exit_code)
