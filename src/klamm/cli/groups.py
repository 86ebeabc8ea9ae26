"""`klamm groups`: list, describe, members, delete, remove-member, and the commands of other modules."""

from __future__ import annotations

from typing import Annotated

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
from klamm.cli.diagnose import diagnose
from klamm.cli.explain import explain
from klamm.cli.failures import MISUSED, fail
from klamm.cli.inspect_group import inspect
from klamm.cli.list_groups import list_groups
from klamm.cli.migrate_group import migrate
from klamm.cli.output import echo
from klamm.cli.trace_group import trace
from klamm.client.admin.model import MemberDescription
from klamm.client.diagnosis.coordinators import partition_of
from klamm.client.diagnosis.history import OFFSETS_TOPIC
from klamm.client.diagnosis.lag import COLUMNS, GroupLag, lag_text, lags_of, unreachable

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Consumer groups of klamm or any Kafka cluster: members, offsets and lag.",
)
Groups = Annotated[
    list[str],
    typer.Argument(
        metavar="GROUP...",
        help="The ids of groups.",
        autocompletion=complete_groups,
    ),
]


app.command(name="list")(list_groups)


@app.command()
def describe(
    groups: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[GROUP]...",
            help="The ids of groups.",
            autocompletion=complete_groups,
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Describe every group of the cluster.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Show a group's state and every partition that it is to read: its offsets, lag and owner.

    A lag is a number only where it is known. OUT OF RANGE: the committed offset is not in the log, so that
    a consumer starts where its auto.offset.reset says.

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
        lags = lags_of(admin, list(found.successes.values()))
        logs = {item.group.group_id: partition_of(admin, OFFSETS_TOPIC, item.group.group_id) for item in lags}
    if as_json:
        print_json([{**item.as_json(), "log": logs[item.group.group_id]} for item in lags])
    else:
        for number, item in enumerate(lags):
            if number:
                echo()
            _print(item, logs[item.group.group_id])
    finish({**found.errors, **unreachable(lags)})


def _print(lag: GroupLag, log: str | None) -> None:
    group = lag.group
    parts = [f"{group.group_id}: {group.state}", f"{len(group.members)} member(s)"]
    if group.epoch is not None:
        parts.append(f"epoch {group.epoch}, target of epoch {group.target_epoch}")
    if group.protocol:
        parts.append(f"assignor {group.protocol}")
    parts.append(f"coordinator {group.coordinator_id}, log {log or 'not known'}")
    is_sink = bool(lag.partitions) and not lag.total.counted
    parts.append("decisions of an exactly-once sink: no lag" if is_sink else f"lag {lag_text(lag.total)}")
    echo("  ".join(parts))
    print_table(COLUMNS, [lag.row(item) for item in lag.partitions])


@app.command()
def members(
    group: Annotated[
        str,
        typer.Argument(
            metavar="GROUP",
            help="The id of the group.",
            autocompletion=complete_groups,
        ),
    ],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Show the members of a group and their partitions.

    In a consumer group also which protocol each speaks, its epoch, and what it has to give up or gets.
    """
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
                    "protocol": item.protocol,
                    "epoch": item.epoch,
                    "target": None if item.target is None else [str(tp) for tp in item.target],
                }
                for item in found.members
            ]
        )
        return
    if not found.members:
        echo(f"{group}: {found.state}, no members")
        return
    if found.group_type == "consumer":
        print_table(_CONSUMER_COLUMNS, map(_consumer_row, found.members))
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


_CONSUMER_COLUMNS = (
    "member", "instance", "client", "host", "protocol", "epoch", "assigned", "to give up", "to get",
)  # fmt: skip


def _consumer_row(item: MemberDescription) -> tuple[object, ...]:
    """A member of a consumer group; the last columns are empty when it has what it should have."""
    has, target = item.assignment or (), item.target or ()
    return (
        item.member_id,
        item.group_instance_id or "-",
        item.client_id,
        item.client_host,
        item.protocol,
        "-" if item.epoch is None else item.epoch,
        " ".join(map(str, has)) or "-",
        " ".join(str(each) for each in has if each not in target) or "-",
        " ".join(str(each) for each in target if each not in has) or "-",
    )


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
        echo(f"{name} deleted")
    finish(results.errors)


@app.command(name="remove-member")
def remove_member(
    group: Annotated[
        str,
        typer.Argument(
            metavar="GROUP",
            help="The id of the group.",
            autocompletion=complete_groups,
        ),
    ],
    member: Annotated[
        list[str] | None,
        typer.Option("--member", metavar="ID", help="A member to remove, by its member id; repeatable."),
    ] = None,
    instance: Annotated[
        list[str] | None,
        typer.Option(
            "--instance",
            metavar="ID",
            help="A static member to remove, by its group.instance.id; repeatable.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Remove every member.")] = False,
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
        echo(f"{name} removed")
    if not results:
        echo(f"{group} has no members")
    finish(results.errors)


app.command()(diagnose)
app.command()(explain)
app.command()(inspect)
app.command()(migrate)
app.command()(trace)
