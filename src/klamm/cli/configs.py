"""`klamm configs`: settings of topics, brokers and groups: show and change."""

from __future__ import annotations

from typing import Annotated, Any

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
from klamm.client.admin.model import AlterOp, ConfigEntry, Resource
from klamm.errors import KlammError

SOURCES = {1: "topic", 2: "broker, dynamic", 3: "all brokers, dynamic", 4: "broker, static", 5: "default"}
SOURCE_OF_GROUP = 8

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Settings of topics, brokers and groups: show and change them.",
)
Topic = Annotated[
    str | None,
    typer.Option(
        "--topic",
        metavar="NAME",
        help="The topic whose settings are meant; give only one of --topic, --broker, --group.",
    ),
]
Broker = Annotated[
    str | None,
    typer.Option(
        "--broker",
        metavar="ID",
        help='The id of the broker whose settings are meant; only the settings of all brokers with "".',
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        metavar="ID",
        help="The group whose settings are meant; give only one of --topic, --broker, --group.",
    ),
]


def _resource(topic: str | None, broker: str | None, group: str | None) -> tuple[Resource, str]:
    given = [
        (kind, name)
        for kind, name in ((Resource.TOPIC, topic), (Resource.BROKER, broker), (Resource.GROUP, group))
        if name is not None
    ]
    if len(given) != 1:
        fail("give exactly one of --topic, --broker and --group", MISUSED)
    return given[0]


@app.command()
def show(
    topic: Topic = None,
    broker: Broker = None,
    group: Group = None,
    every: Annotated[bool, typer.Option("--all", help="Include settings at their defaults.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Show settings and where each comes from.

    \b
      klamm configs show --topic orders
      klamm configs show --broker 1 --all
    """
    resource = _resource(topic, broker, group)
    with an_admin(bootstrap, timeout) as admin:
        found = admin.describe_configs([resource]).unwrap()[resource]
    entries = [item for _, item in sorted(found.items()) if every or item.source != 5]
    if as_json:
        print_json([_as_json(item) for item in entries])
    elif not entries:
        echo("All settings are at their defaults; --all shows them.")
    else:
        rows = [
            (item.name, _value(item), _source(item), "yes" if item.is_read_only else "-") for item in entries
        ]
        print_table(("name", "value", "from", "read only"), rows)


def _value(item: ConfigEntry) -> str:
    return "(hidden)" if item.is_sensitive else "" if item.value is None else item.value


def _source(item: ConfigEntry) -> str:
    return "group" if item.source == SOURCE_OF_GROUP else SOURCES.get(item.source, str(item.source))


def _as_json(item: ConfigEntry) -> dict[str, Any]:
    return {
        "name": item.name,
        "value": item.value,
        "source": _source(item),
        "is_default": item.is_default,
        "is_read_only": item.is_read_only,
        "is_sensitive": item.is_sensitive,
    }


@app.command()
def alter(
    topic: Topic = None,
    broker: Broker = None,
    group: Group = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting to change; repeatable.")
    ] = None,
    delete: Annotated[
        list[str] | None,
        typer.Option("--delete", metavar="NAME", help="A setting to reset to its default; repeatable."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Change settings of a running cluster.

    \b
      klamm configs alter --broker 1 --set log.cleaner.threads=2
      klamm configs alter --topic orders --delete retention.ms
    """
    resource = _resource(topic, broker, group)
    changes: list[tuple[str, AlterOp, str | None]] = [
        (name, AlterOp.SET, value) for name, value in pairs(change or [], "--set").items()
    ]
    changes += [(name, AlterOp.DELETE, None) for name in delete or []]
    if not changes:
        fail("nothing to change: give --set or --delete", MISUSED)
    with an_admin(bootstrap, timeout) as admin:
        errors: dict[Any, KlammError] = dict(
            admin.alter_configs({resource: changes}, raise_errors=False).errors
        )
    finish(errors)
    echo(f"{resource[0]} {resource[1] or '(all)'} changed")
