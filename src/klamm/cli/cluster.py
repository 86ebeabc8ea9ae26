"""Shared by commands that connect to a cluster: its address, errors, tables and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from klamm.cli.failures import FAILED, MISUSED, fail
from klamm.cli.profiles import profile_settings
from klamm.cli.tables import table_lines
from klamm.client.admin.admin import Admin
from klamm.config import ConfigError, from_flags
from klamm.errors import KlammError

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT",
        envvar="KLAMM_BOOTSTRAP",
        help="A broker of the cluster, klamm or Apache Kafka.",
    ),
]
Timeout = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", help="How long to wait for the cluster.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_TIMEOUT = 10.0


@contextmanager
def clear_errors() -> Iterator[None]:
    """Errors of the cluster and of settings end the command with one line."""
    try:
        yield
    except ConfigError as error:
        fail(error, MISUSED)
    except KlammError as error:
        fail(error)


@contextmanager
def an_admin(bootstrap: str, timeout: float) -> Iterator[Admin]:
    """An admin client of the cluster; errors end the command with one line."""
    with clear_errors():
        settings = {
            **profile_settings(),
            "bootstrap.servers": bootstrap,
            "default.api.timeout.ms": round(timeout * 1000),
            "request.timeout.ms": min(30_000, round(timeout * 1000)),
        }
        with Admin(settings) as admin:
            # The time is for the whole command, however many operations it takes.
            admin._operations.end_after(timeout)
            yield admin


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A plain table: columns as wide as their longest cell, numbers aligned right, no wrapping."""
    for line in table_lines(columns, rows):
        typer.echo(line)


def pairs(values: Sequence[str], what: str) -> dict[str, str]:
    """`name=value` arguments as a dictionary."""
    try:
        return from_flags(values)
    except ConfigError:
        fail(f"{what} expects name=value, as in {what} retention.ms=60000", MISUSED)


def finish(errors: Mapping[Any, KlammError]) -> None:
    """End with a line per item that failed, if any did."""
    if errors:
        for error in errors.values():
            typer.echo(f"klamm: {error}", err=True)
        raise typer.Exit(FAILED)
