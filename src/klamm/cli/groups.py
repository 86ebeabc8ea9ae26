"""`klamm groups`: list, describe, members, delete, remove-member, explain."""

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
    print_json,
    print_table,
)
from klamm.cli.completion import complete_groups
from klamm.cli.explain import explain
from klamm.cli.failures import MISUSED, fail
from klamm.cli.lag import PartitionLag, lag_of, lag_text, total_lag
from klamm.client.admin.model import GroupDescription

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Consumer groups of klamm or any Kafka cluster: members, offsets and lag.",
)
Groups = Annotated[
    list[str],
    typer.Argument(
        metavar="GROUP...",
        help="Ids of groups.",
        autocompletion=complete_groups,
    ),
]


@app.command(name="list")
def list_groups(
    state: Annotated[
        list[str] | None, typer.Option("--state", help="Only groups in this state, as in Stable or Empty.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """List the groups of the whole cluster."""
    with an_admin(bootstrap, timeout) as admin:
        groups = admin.list_groups(states=state or ())
    if as_json:
        print_json(
            [
                {
                    "group": item.group_id,
                    "state": item.state,
                    "protocol_type": item.protocol_type,
                    "type": item.group_type,
                }
                for item in groups
            ]
        )
    elif not groups:
        typer.echo("No groups" + (" in this state." if state else "."))
    else:
        rows = [(item.group_id, item.state, item.protocol_type or "-", item.group_type) for item in groups]
        print_table(("group", "state", "protocol type", "type"), rows)


@app.command()
def describe(
    groups: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[GROUP]...",
            help="Ids of groups.",
            autocompletion=complete_groups,
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All groups of the cluster.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Show a group's state and, partition by partition, its offset, its lag and the owner.

    \b
      klamm groups describe billing
      klamm groups describe billing shipping --json
      klamm groups describe --all
    """
    if every == bool(groups):
        fail("no group given: name groups, or use --all", MISUSED)
    with an_admin(bootstrap, timeout) as admin:
        chosen = groups or [item.group_id for item in admin.list_groups()]
        found = admin.describe_groups(chosen, raise_errors=False)
        described = list(found.successes.values())
        lags = {item.group_id: lag_of(admin, item) for item in described}
    if as_json:
        print_json([_as_json(item, lags[item.group_id]) for item in described])
    else:
        for number, item in enumerate(described):
            if number:
                typer.echo()
            _print(item, lags[item.group_id])
    finish(found.errors)


def _as_json(group: GroupDescription, lags: list[PartitionLag]) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": group.state,
        "protocol_type": group.protocol_type,
        "assignor": group.protocol,
        "coordinator": group.coordinator_id,
        "members": len(group.members),
        "lag": total_lag(lags),
        "partitions": [item.as_json() for item in lags],
    }


def _print(group: GroupDescription, lags: list[PartitionLag]) -> None:
    parts = [f"{group.group_id}: {group.state}", f"{len(group.members)} member(s)"]
    if group.protocol:
        parts.append(f"assignor {group.protocol}")
    parts += [f"coordinator {group.coordinator_id}", f"lag {lag_text(lags)}"]
    typer.echo("  ".join(parts))
    print_table(
        ("topic", "partition", "committed", "end", "lag", "member", "client", "host"),
        [item.row() for item in lags],
    )


@app.command()
def members(
    group: Annotated[
        str,
        typer.Argument(
            metavar="GROUP",
            help="Id of the group.",
            autocompletion=complete_groups,
        ),
    ],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Show the members of a group and their partitions."""
    with an_admin(bootstrap, timeout) as admin:
        found = admin.describe_groups([group]).unwrap()[group]
    if as_json:
        print_json(
            [
                {
                    "member": item.member_id,
                    "instance": item.group_instance_id,
                    "client": item.client_id,
                    "host": item.client_host,
                    "subscribed": None if item.subscribed_topics is None else list(item.subscribed_topics),
                    "assigned": None if item.assignment is None else [str(tp) for tp in item.assignment],
                }
                for item in found.members
            ]
        )
        return
    if not found.members:
        typer.echo(f"{group}: {found.state}, no members")
        return
    rows = [
        (
            item.member_id,
            item.group_instance_id or "-",
            item.client_id,
            item.client_host,
            "-" if item.assignment is None else len(item.assignment),
            "-" if not item.assignment else " ".join(map(str, item.assignment)),
        )
        for item in found.members
    ]
    print_table(("member", "instance", "client", "host", "partitions", "assigned"), rows)


@app.command()
def delete(
    groups: Groups,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Delete groups without members, and their offsets."""
    with an_admin(bootstrap, timeout) as admin:
        results = admin.delete_groups(groups, raise_errors=False)
    for name in results.successes:
        typer.echo(f"{name} deleted")
    finish(results.errors)


@app.command(name="remove-member")
def remove_member(
    group: Annotated[
        str,
        typer.Argument(
            metavar="GROUP",
            help="Id of the group.",
            autocompletion=complete_groups,
        ),
    ],
    member: Annotated[
        list[str] | None, typer.Option("--member", metavar="ID", help="A member by its member id.")
    ] = None,
    instance: Annotated[
        list[str] | None,
        typer.Option("--instance", metavar="ID", help="A static member by its group.instance.id."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All members.")] = False,
    reason: Annotated[
        str, typer.Option(help="The reason, which the broker logs and `klamm groups explain` shows.")
    ] = "removed by klamm groups remove-member",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Remove members from a group; the others rebalance."""
    if every == bool(member or instance):
        fail("no member given: use --member ID, --instance ID, or --all", MISUSED)
    with an_admin(bootstrap, timeout) as admin:
        instances = None if every else instance or []
        results = admin.remove_members(
            group, instance_ids=instances, member_ids=member or (), reason=reason, raise_errors=False
        )
    for name in results.successes:
        typer.echo(f"{name} removed")
    if not results:
        typer.echo(f"{group} has no members")
    finish(results.errors)


app.command()(explain)
