"""`klamm offsets`: show, reset, export, import, delete."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from klamm.cli.cluster import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT,
    AsJson,
    Bootstrap,
    Timeout,
    an_admin,
    exists,
    finish,
    print_json,
    print_table,
    require_group,
)
from klamm.cli.completion import complete_groups
from klamm.cli.failures import FAILED, MISUSED, fail
from klamm.cli.offset_plans import (
    OffsetPlan,
    chosen_partitions,
    parse_target,
    plan_import,
    plan_reset,
    read_csv,
)
from klamm.cli.output import echo
from klamm.client.admin.admin import Admin
from klamm.client.admin.model import CommittedOffset
from klamm.protocol.types import TopicPartition

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Committed offsets of a group: show, reset, export, import, delete.",
)
Group = Annotated[
    str,
    typer.Argument(
        metavar="GROUP",
        help="The id of the group.",
        autocompletion=complete_groups,
    ),
]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        "-t",
        metavar="TOPIC[:0,1]",
        help="Only this topic, or only these partitions of it; repeatable.",
    ),
]
Execute = Annotated[bool, typer.Option("--execute", help="Apply the change; without this it is only shown.")]


@app.command()
def show(
    group: Group,
    topic: Topics = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Show what a group has committed."""
    with an_admin(bootstrap, timeout) as admin:
        committed = _committed(admin, group, topic or ())
        if not committed:
            require_group(admin, group)
    rows = [
        (key.topic, key.partition, item.offset, item.leader_epoch, item.metadata)
        for key, item in sorted(committed.items())
    ]
    if as_json:
        names = ("topic", "partition", "offset", "leader_epoch", "metadata")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    elif rows:
        print_table(("topic", "partition", "offset", "epoch", "metadata"), rows)
    else:
        echo(f"{group} has no committed offsets")


def _committed(admin: Admin, group: str, topics: Sequence[str]) -> dict[TopicPartition, CommittedOffset]:
    committed = admin.list_group_offsets(group)
    if not topics:
        return committed
    wanted = set(_chosen(admin, topics))
    return {key: item for key, item in committed.items() if key in wanted}


def _chosen(admin: Admin, topics: Sequence[str]) -> list[TopicPartition]:
    try:
        return chosen_partitions(admin, topics)
    except ValueError as error:
        fail(error, MISUSED)


@app.command()
def reset(
    group: Group,
    topic: Topics = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Reset every topic with a committed offset.")
    ] = False,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="Reset to the first offset of each log.")
    ] = False,
    to_latest: Annotated[
        bool, typer.Option("--to-latest", help="Reset to the end offset of each log.")
    ] = False,
    to_current: Annotated[
        bool,
        typer.Option(
            "--to-current", help="Reset to the committed offset: only offsets outside of their log change."
        ),
    ] = False,
    to_offset: Annotated[
        int | None,
        typer.Option("--to-offset", metavar="N", help="Reset to this offset; only one --to may be given."),
    ] = None,
    shift_by: Annotated[
        int | None,
        typer.Option(
            "--shift-by",
            metavar="N",
            help="Move by this many offsets, back if negative; only for committed offsets.",
        ),
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime",
            metavar="TIME",
            help="Reset to the first record at or after this time, as in 2026-01-31T08:00:00, in UTC "
            "without an offset such as +01:00.",
        ),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option(
            "--by-duration",
            metavar="DURATION",
            help="Reset to the first record of this time span, which ends now, as in PT2H30M; default: no "
            "time.",
        ),
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from-file",
            help="Reset to the offsets in this file of lines topic,partition,offset, as `export` prints; "
            "default: no file.",
        ),
    ] = None,
    execute: Execute = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Reset a group's offsets. Shows the change; --execute applies it. The group must have no members.

    \b
      klamm offsets reset billing --topic orders --to-earliest
      klamm offsets reset billing --topic orders:0,1 --shift-by -100 --execute
      klamm offsets reset billing --all-topics --by-duration PT1H --execute
    """
    try:
        target = parse_target(
            to_earliest=to_earliest,
            to_latest=to_latest,
            to_current=to_current,
            to_offset=to_offset,
            shift_by=shift_by,
            to_datetime=to_datetime,
            by_duration=by_duration,
            from_file=from_file,
        )
        if from_file is None and bool(topic) == all_topics:
            raise ValueError("no topic given: use --topic TOPIC, or --all-topics")
    except ValueError as error:
        fail(error, MISUSED)
    with an_admin(bootstrap, timeout) as admin:
        try:
            plans = plan_reset(admin, group, target, topic or [])
        except ValueError as error:
            fail(error)
        if not plans:
            require_group(admin, group)
        _carry_out(admin, group, plans, execute=execute, as_json=as_json)


def _carry_out(admin: Admin, group: str, plans: list[OffsetPlan], *, execute: bool, as_json: bool) -> None:
    if as_json:
        print_json([item.as_json() for item in plans])
    elif plans:
        columns = ("topic", "partition", "from", "to", "note")
        count = len(columns) if any(item.note for item in plans) else len(columns) - 1
        print_table(columns[:count], [item.row()[:count] for item in plans])
    else:
        echo(f"{group} has nothing to change")
    if plans and all(item.current is None for item in plans) and not exists(admin, group):
        change = "it is created" if execute else "--execute creates it"
        echo(f"group {group} does not exist: {change} with these offsets", err=True)
    if not execute:
        if plans and not as_json:
            echo("Nothing was changed; add --execute to apply it.", err=True)
        return
    _refuse_if_in_use(admin, group)
    wanted = {item.partition: CommittedOffset(item.target) for item in plans}
    finish(admin.alter_group_offsets(group, wanted, raise_errors=False).errors if wanted else {})


def _refuse_if_in_use(admin: Admin, group: str) -> None:
    if not exists(admin, group):
        return
    found = admin.describe_groups([group], raise_errors=False).successes.get(group)
    if found is not None and found.members:
        fail(f"{group} has {len(found.members)} member(s): stop them before changing its offsets", FAILED)


@app.command()
def export(
    group: Group,
    topic: Topics = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Print lines topic,partition,offset that `import` and kafka-consumer-groups --from-file read."""
    with an_admin(bootstrap, timeout) as admin:
        committed = _committed(admin, group, topic or ())
        if not committed:
            require_group(admin, group)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for key, item in sorted(committed.items()):
        writer.writerow((key.topic, key.partition, item.offset))


@app.command(name="import")
def import_offsets(
    group: Group,
    file: Annotated[
        Path, typer.Argument(help="A file of lines topic,partition,offset; `-` for standard input.")
    ],
    execute: Execute = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Commit what `export` printed, for this or another group. Shows it; --execute applies it."""
    try:
        wanted = read_csv(file)
    except ValueError as error:
        fail(error, MISUSED)
    with an_admin(bootstrap, timeout) as admin:
        plans = plan_import(admin, group, wanted)
        _carry_out(admin, group, plans, execute=execute, as_json=as_json)


@app.command()
def delete(
    group: Group,
    topics: Annotated[
        list[str],
        typer.Argument(metavar="TOPIC[:0,1]...", help="Topics, or only these partitions of them."),
    ],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Delete offsets of topics that the group is not subscribed to."""
    with an_admin(bootstrap, timeout) as admin:
        results = admin.delete_group_offsets(group, _chosen(admin, topics), raise_errors=False)
    for key in results.successes:
        echo(f"{key} deleted")
    finish(results.errors)
