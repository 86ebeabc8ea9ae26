"""Shared by commands that connect to a cluster: its address, errors, tables and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final

import typer

from klamm.cli.failures import FAILED, MISUSED, fail
from klamm.cli.output import echo, echo_lines
from klamm.cli.profiles import profile_settings
from klamm.cli.tables import table_lines
from klamm.client.admin.admin import Admin
from klamm.config import ConfigError, from_flags
from klamm.errors import BrokerError, KlammError
from klamm.printable import printable_json
from klamm.protocol.errors import ErrorCode

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT",
        envvar="KLAMM_BOOTSTRAP",
        help="The address of a broker of the cluster, klamm or Apache Kafka.",
    ),
]
Timeout = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", help="Seconds that the whole command may take.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON in place of text.")]
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_TIMEOUT = 10.0


@contextmanager
def clear_errors(*, but: type[KlammError] | tuple[()] = ()) -> Iterator[None]:
    """Errors of the cluster and of settings end the command with one line, but those that it words itself."""
    try:
        yield
    except but:
        raise
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


def exists(admin: Admin, group: str) -> bool:
    """Whether there is such a group. Raises KlammError if the cluster does not tell."""
    found = admin.describe_groups([group], raise_errors=False)
    error = found.errors.get(group)
    if error is None:
        return True
    if isinstance(error, BrokerError) and error.error_code == ErrorCode.group_id_not_found:
        # Its members may speak a protocol that only the list knows.
        return any(item.group_id == group for item in admin.list_groups())
    raise error


def require_group(admin: Admin, group: str) -> None:
    """End the command if there is no such group."""
    if not exists(admin, group):
        fail(_NO_GROUP.format(group))


def problem_of(group: str, error: KlammError) -> str:
    """Why nothing can be said of a group."""
    is_absent = isinstance(error, BrokerError) and error.error_code == ErrorCode.group_id_not_found
    return _NO_GROUP.format(group) if is_absent else str(error)


_NO_GROUP: Final = "group {} does not exist: `klamm groups list` shows those that do"


def print_json(value: Any) -> None:
    echo_lines(printable_json(json.dumps(value, ensure_ascii=False, indent=2)))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A plain table: columns as wide as their longest cell, numbers aligned right, no wrapping."""
    for line in table_lines(columns, rows):
        echo(line)


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
            echo(f"klamm: {error}", err=True)
        raise typer.Exit(FAILED)
