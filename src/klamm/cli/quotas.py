"""`klamm quotas`: how fast clients may go."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import typer

from klamm.cli.cluster import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT,
    AsJson,
    Bootstrap,
    Timeout,
    an_admin,
    finish,
    pairs,
    print_json,
    print_table,
)
from klamm.cli.failures import MISUSED, fail
from klamm.cli.output import echo
from klamm.client.admin.access_model import DEFAULT_ENTITY, QuotaEntity
from klamm.client.admin.admin import Admin
from klamm.errors import KlammError

UNITS: Final = {
    "producer_byte_rate": "bytes/s",
    "consumer_byte_rate": "bytes/s",
    "request_percentage": "% of one thread",
    "controller_mutation_rate": "partitions/s",
    "connection_creation_rate": "connections/s",
}
_SIZES: Final = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1024, "mi": 1024**2, "gi": 1024**3}
_RATE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmg]i?)?b?(?:/s)?", re.IGNORECASE)
_COLUMNS: Final = ("user", "client id", "ip", "quota", "value", "unit")

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="""Quotas: how fast clients may go.

A quota is for users, client ids, both together, or addresses, and holds on each broker. A broker delays
clients that are faster. The name "" is the default: the quota of each one without a quota of its own.

\b
  klamm quotas set --user alice producer_byte_rate=10MB
  klamm quotas check --user alice --client-id etl
""",
)
User = Annotated[
    str | None,
    typer.Option(
        "--user",
        metavar="NAME",
        help='The user whose quotas are meant, without User: in front; "" is the default user; optional.',
    ),
]
ClientId = Annotated[
    str | None,
    typer.Option(
        "--client-id",
        metavar="ID",
        help='The client.id whose quotas are meant; "" is the default client id; optional.',
    ),
]
Ip = Annotated[
    str | None,
    typer.Option(
        "--ip",
        metavar="IP",
        help='The address whose quotas are meant; "" is the default address; optional.',
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Let the broker check the change; change nothing.")]


@app.command(name="list")
def list_quotas(
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """List quotas: all, or those that name a user, a client id or an address.

    \b
      klamm quotas list
      klamm quotas list --user alice
    """
    with an_admin(bootstrap, timeout) as admin:
        found = admin.describe_quotas(_entity(user, client_id, ip, is_optional=True))
    rows = [(entity, key, value) for entity, rates in found.items() for key, value in rates.items()]
    if as_json:
        print_json([_as_json(*row) for row in rows])
    elif rows:
        print_table(_COLUMNS, [_cells(*row) for row in rows])
    else:
        named = any(each is not None for each in (user, client_id, ip))
        echo("There are no quotas" + (" that match." if named else "."))


@app.command(name="set")
def set_quotas(
    rates: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=VALUE...",
            help="Quotas by Kafka's names: producer_byte_rate and consumer_byte_rate in bytes/s, with units "
            "as in 10MB or 512KiB; request_percentage in % of one thread; controller_mutation_rate in "
            "partitions/s; for addresses connection_creation_rate in connections/s.",
        ),
    ],
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Set quotas. Others of the user, client id or address stay.

    \b
      klamm quotas set --user alice producer_byte_rate=10MB consumer_byte_rate=20MB
      klamm quotas set --user "" consumer_byte_rate=5MB
      klamm quotas set --user alice --client-id etl request_percentage=50
      klamm quotas set --ip 10.0.0.7 connection_creation_rate=10
    """
    entity = _entity(user, client_id, ip)
    wanted = {name: _rate(name, value) for name, value in pairs(rates, "quotas set").items()}
    with an_admin(bootstrap, timeout) as admin:
        _alter(admin, entity, wanted, dry_run, as_json)


@app.command()
def remove(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="The quotas to remove by Kafka's names; default: all."),
    ] = None,
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Remove quotas of a user, a client id, both together, or an address. Exit code 1 if there are none.

    --user alice alone keeps the quotas of alice with a client id.

    \b
      klamm quotas remove --user alice
      klamm quotas remove producer_byte_rate --user alice --client-id etl
    """
    entity = _entity(user, client_id, ip)
    with an_admin(bootstrap, timeout) as admin:
        there = admin.describe_quotas(entity, strict=True).get(entity, {})
        absent = [name for name in names or () if name not in there]
        if absent or not there:
            fail(f"{entity} has no quota{' ' + absent[0] if absent else ''}: see `klamm quotas list`")
        _alter(admin, entity, dict.fromkeys(names or there), dry_run, as_json)


def _alter(
    admin: Admin, entity: QuotaEntity, wanted: Mapping[str, float | None], dry_run: bool, is_json: bool
) -> None:
    errors: Mapping[Any, KlammError] = admin.alter_quotas(
        {entity: wanted}, validate_only=dry_run, raise_errors=False
    ).errors
    finish(errors)
    if is_json:
        print_json([{**_as_json(entity, key, value), "dry_run": dry_run} for key, value in wanted.items()])
        return
    for key, value in wanted.items():
        if value is None:
            verb = "would be removed" if dry_run else "removed"
            echo(f"{entity}: {key} {verb}")
        else:
            verb = "would be" if dry_run else "is"
            echo(f"{entity}: {key} {verb} {_number(value)} {UNITS.get(key, '')}".rstrip())


@app.command()
def check(
    user: User = None,
    client_id: ClientId = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Show which quotas hold for a client, and which of the eight levels each is from.

    A client has a user (ANONYMOUS without a login) and a client id. Of each quota the most specific one
    holds: that of the user comes before that of the default user, then that of the client id alone; and of a
    user, that with the client id before that with the default client id.

    \b
      klamm quotas check --user alice --client-id etl
    """
    if user is None or client_id is None:
        fail("name a client by --user and --client-id; --user ANONYMOUS is a client without a login", MISUSED)
    with an_admin(bootstrap, timeout) as admin:
        found = admin.describe_quotas()
    held = dict(_holding(found, user, client_id))
    if as_json:
        print_json([_as_json(entity, key, value) for key, (entity, value) in held.items()])
    elif held:
        print_table(
            ("quota", "value", "unit", "from"),
            [(key, _number(value), UNITS.get(key, ""), str(entity)) for key, (entity, value) in held.items()],
        )
    else:
        echo(f"No quota holds for user {user} with client id {client_id}.")


def levels(user: str, client_id: str) -> list[QuotaEntity]:
    """The eight entities that a client belongs to; the first that has a quota decides."""
    default = DEFAULT_ENTITY
    return [
        QuotaEntity(user, client_id),
        QuotaEntity(user, default),
        QuotaEntity(user),
        QuotaEntity(default, client_id),
        QuotaEntity(default, default),
        QuotaEntity(default),
        QuotaEntity(None, client_id),
        QuotaEntity(None, default),
    ]


def _holding(
    found: Mapping[QuotaEntity, Mapping[str, float]], user: str, client_id: str
) -> Iterator[tuple[str, tuple[QuotaEntity, float]]]:
    for key in UNITS:
        for entity in levels(user, client_id):
            if key in found.get(entity, {}):
                yield key, (entity, found[entity][key])
                break


def _entity(
    user: str | None, client_id: str | None, ip: str | None, *, is_optional: bool = False
) -> QuotaEntity:
    if ip is not None and (user is not None or client_id is not None):
        fail("--ip cannot be combined with --user and --client-id", MISUSED)
    if not is_optional and user is None and client_id is None and ip is None:
        fail('name a --user, a --client-id, both, or an --ip; "" is the default', MISUSED)
    if user is not None and user.startswith("User:"):
        fail(f"invalid --user {user}: quotas take the name without User:", MISUSED)
    return QuotaEntity(user, client_id, ip)


def _rate(name: str, value: str) -> float:
    match = _RATE.fullmatch(value.strip())
    unit = (match[2] or "").lower() if match else ""
    if match is None or (unit and not name.endswith("_byte_rate")):
        sizes = ", as in 10MB or 512KiB" if name.endswith("_byte_rate") else ""
        fail(f"invalid value {value} for {name}: expected a number{sizes}", MISUSED)
    return float(match[1]) * _SIZES[unit]


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


def _cells(entity: QuotaEntity, key: str, value: float) -> tuple[str, ...]:
    names = (entity.user, entity.client_id, entity.ip)
    shown = ("-" if name is None else name or "(default)" for name in names)
    return (*shown, key, _number(value), UNITS.get(key, ""))


def _as_json(entity: QuotaEntity, key: str, value: float | None) -> dict[str, Any]:
    """An entity that is no part of a quota is null; the default is an empty name."""
    return {"user": entity.user, "client_id": entity.client_id, "ip": entity.ip, "quota": key, "value": value}
