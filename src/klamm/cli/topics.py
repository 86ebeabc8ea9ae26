"""`klamm topics`: create, list, describe, offsets, alter, trim, delete."""

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
from klamm.cli.completion import complete_topics
from klamm.cli.failures import MISUSED, fail
from klamm.cli.offset_plans import chosen_partitions
from klamm.cli.output import echo, echo_lines
from klamm.cli.quick_topics import lines
from klamm.cli.start_points import StartPoint, parse_start
from klamm.client.admin.admin import Admin
from klamm.client.admin.model import (
    AlterOp,
    ListedOffset,
    NewTopic,
    Resource,
    TopicDescription,
)
from klamm.client.admin.offsets import EARLIEST, LATEST
from klamm.client.admin.results import Results
from klamm.clock import SystemClock
from klamm.errors import KlammError
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition, id_to_text

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Topics of klamm or of any Kafka cluster: create, describe, alter, trim, delete.",
)
Names = Annotated[
    list[str],
    typer.Argument(
        metavar="TOPIC...",
        help="The names of topics.",
        autocompletion=complete_topics,
    ),
]
Config = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="NAME=VALUE", help="A setting of the topic; repeatable."),
]


@app.command()
def create(
    names: Names,
    partitions: Annotated[
        int,
        typer.Option(
            "--partitions", "-p", help="The number of partitions of each topic; -1: the broker's default."
        ),
    ] = -1,
    replication_factor: Annotated[
        int,
        typer.Option(
            "--replication-factor",
            "-r",
            help="The number of replicas of each partition; -1: the broker's default.",
        ),
    ] = -1,
    config: Config = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do not fail if the topic exists.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only validate; create nothing.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Create topics with their partitions and settings.

    \b
      klamm topics create orders --partitions 6
      klamm topics create prices --config cleanup.policy=compact --config segment.ms=60000
    """
    settings = pairs(config or [], "--config")
    with an_admin(bootstrap, timeout) as admin:
        new = [NewTopic(name, partitions, replication_factor, settings) for name in names]
        results = admin.create_topics(new, validate_only=dry_run, raise_errors=False)
        errors = results.errors
        if if_not_exists:
            errors = {name: error for name, error in errors.items() if not _exists_already(error)}
        if not dry_run and not errors:
            admin.wait_for_topics(names)
    made = results.successes
    if as_json:
        print_json(
            [
                {"topic": name, "partitions": item.partitions, "topic_id": id_to_text(item.topic_id)}
                for name, item in made.items()
            ]
        )
    else:
        for name, item in made.items():
            verb = "could be created" if dry_run else "created"
            echo(f"{name} {verb} with {item.partitions} partition(s)")
    finish(errors)


def _exists_already(error: KlammError) -> bool:
    return getattr(error, "error_code", None) == ErrorCode.topic_already_exists


@app.command(name="list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Include internal topics.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """List topics with their number of partitions."""
    with an_admin(bootstrap, timeout) as admin:
        found = admin.describe_topics(raise_errors=False)
    topics = [item for _, item in sorted(found.successes.items()) if internal or not item.is_internal]
    shown = [(item.name, len(item.partitions), item.is_internal) for item in topics]
    for line in lines(shown, as_json):
        echo_lines(line)
    finish(found.errors)


@app.command()
def describe(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC]...",
            help="The names of topics; default: all but internal ones.",
            autocompletion=complete_topics,
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Show partitions, leaders, offsets and the settings that differ from the defaults.

    Consumers read up to the high watermark; with isolation.level=read_committed up to the last stable offset,
    which is where the first open transaction begins (`klamm txns hanging` shows it).
    """
    with an_admin(bootstrap, timeout) as admin:
        found = admin.describe_topics(names or None, raise_errors=False)
        topics = [item for _, item in sorted(found.successes.items())]
        errors: dict[Any, KlammError] = dict(found.errors)
        shown = [_facts(admin, item, errors) for item in topics if names or not item.is_internal]
    if as_json:
        print_json(shown)
    else:
        for number, facts in enumerate(shown):
            if number:
                echo()
            _print(facts)
    finish(errors)


def _facts(admin: Admin, topic: TopicDescription, errors: dict[Any, KlammError]) -> dict[str, Any]:
    """What is known of a topic; None stands for what is not, and `errors` says why."""
    keys = [TopicPartition(topic.name, item.partition) for item in topic.partitions]
    earliest = admin.list_offsets(keys, "earliest", raise_errors=False)
    latest = admin.list_offsets(keys, "latest", raise_errors=False)
    stable = admin.list_offsets(keys, "latest", read_committed=True, raise_errors=False)
    configs = admin.describe_configs("topic", topic.name, raise_errors=False)
    for results in (earliest, latest, stable, configs):
        errors.update(results.errors)
    entries = configs.successes.get((Resource.TOPIC, topic.name))

    def offset(found: Results[TopicPartition, ListedOffset], key: TopicPartition) -> int | None:
        return found.successes[key].offset if key in found.successes else None

    return {
        "topic": topic.name,
        "topic_id": id_to_text(topic.topic_id),
        "is_internal": topic.is_internal,
        "configs": entries and {name: item.value for name, item in entries.items() if item.source == 1},
        "partitions": [
            {
                "partition": item.partition,
                "leader": None if item.leader_id < 0 else item.leader_id,
                "leader_epoch": None if item.leader_epoch < 0 else item.leader_epoch,
                "replicas": list(item.replicas),
                "in_sync": list(item.in_sync),
                "start_offset": offset(earliest, key),
                "last_stable_offset": offset(stable, key),
                "end_offset": offset(latest, key),
            }
            for item, key in zip(topic.partitions, keys, strict=True)
        ],
    }


def _print(facts: dict[str, Any]) -> None:
    configs = facts["configs"]
    settings = "settings unknown"
    if configs is not None:
        listed = ", ".join(f"{name}={value}" for name, value in sorted(configs.items()))
        settings = listed or "all settings at their defaults"
    echo(f"{facts['topic']}  id {facts['topic_id']}  {settings}")
    names = ("partition", "leader", "leader_epoch", "replicas", "in_sync")
    offsets = ("start_offset", "last_stable_offset", "end_offset")
    print_table(
        ("partition", "leader", "epoch", "replicas", "in sync", "start", "last stable", "high watermark"),
        [[_cell(item[name]) for name in (*names, *offsets)] for item in facts["partitions"]],
    )


def _cell(value: Any) -> object:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return "unknown" if value is None else value


@app.command()
def delete(
    names: Names,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Do not fail if the topic does not exist.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Delete topics and their records."""
    with an_admin(bootstrap, timeout) as admin:
        results = admin.delete_topics(names, raise_errors=False)
    for name in results.successes:
        echo(f"{name} deleted")
    errors = results.errors
    if if_exists:
        errors = {name: error for name, error in errors.items() if not _is_unknown(error)}
    finish(errors)


def _is_unknown(error: KlammError) -> bool:
    return getattr(error, "error_code", None) == ErrorCode.unknown_topic_or_partition


@app.command()
def offsets(
    names: Names,
    at: Annotated[
        str,
        typer.Option(
            "--at", help="What is looked up: beginning, end, or @TIME, an instant or a duration before now."
        ),
    ] = "end",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Show where each partition begins or ends, or its first record at or after a time.

    \b
      klamm topics offsets orders
      klamm topics offsets orders --at @2026-01-31T08:00:00
      klamm topics offsets orders:0,1 --at @PT1H
    """
    wanted = _point(at)
    with an_admin(bootstrap, timeout) as admin:
        found = admin.list_offsets(_chosen(admin, names), wanted, raise_errors=False)
    rows = [
        (key.topic, key.partition, item.offset, item.timestamp_ms)
        for key, item in sorted(found.successes.items())
    ]
    columns = ("topic", "partition", "offset", "timestamp_ms")
    if as_json:
        known = [tuple(None if cell == -1 else cell for cell in row) for row in rows]
        print_json([dict(zip(columns, row, strict=True)) for row in known])
    else:
        print_table(columns, [tuple("-" if cell == -1 else cell for cell in row) for row in rows])
    finish(found.errors)


@app.command()
def trim(
    names: Names,
    before: Annotated[
        str, typer.Option("--before", help="An offset, end, or @TIME: records before it are deleted.")
    ],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Delete the oldest records of partitions.

    \b
      klamm topics trim orders --before end
      klamm topics trim orders:0 --before 1200
      klamm topics trim orders --before @P7D
    """
    point = None if before.isdecimal() else _point(before)
    with an_admin(bootstrap, timeout) as admin:
        chosen = _chosen(admin, names)
        if point is None:
            limits = dict.fromkeys(chosen, int(before))
        else:
            listed = admin.list_offsets(dict.fromkeys(chosen, point)).unwrap()
            ends = admin.list_offsets(dict.fromkeys(chosen, LATEST)).unwrap()
            limits = {
                key: item.offset if item.offset >= 0 else ends[key].offset for key, item in listed.items()
            }
        results = admin.delete_records(limits, raise_errors=False)
    for key, start in sorted(results.successes.items()):
        echo(f"{key} starts at {start}")
    finish(results.errors)


def _point(text: str) -> int:
    """The timestamp for ListOffsets: a time, or one of its special values."""
    try:
        point = parse_start(text, SystemClock())
    except ValueError as error:
        fail(error, MISUSED)
    if point.timestamp_ms is not None:
        return point.timestamp_ms
    if point == StartPoint(offset=0):
        return EARLIEST
    if point == StartPoint(before_end=0):
        return LATEST
    fail(f"invalid point {text}: expected beginning, end or @TIME", MISUSED)


def _chosen(admin: Admin, names: list[str]) -> list[TopicPartition]:
    try:
        return chosen_partitions(admin, names)
    except ValueError as error:
        fail(error, MISUSED)


@app.command()
def alter(
    names: Names,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", help="The new number of partitions; default: unchanged."),
    ] = None,
    config: Config = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option(
            "--delete-config", metavar="NAME", help="A setting to reset to the broker's default; repeatable."
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Change settings, or increase the number of partitions.

    \b
      klamm topics alter orders --config retention.ms=3600000
      klamm topics alter orders --delete-config retention.ms --partitions 12
    """
    changes = [(name, AlterOp.SET, value) for name, value in pairs(config or [], "--config").items()]
    removed: list[tuple[str, AlterOp, str | None]] = [
        (name, AlterOp.DELETE, None) for name in delete_config or []
    ]
    if partitions is None and not changes and not removed:
        fail("nothing to change: give --config, --delete-config or --partitions", MISUSED)
    errors: dict[Any, KlammError] = {}
    with an_admin(bootstrap, timeout) as admin:
        if changes or removed:
            wanted = {(Resource.TOPIC, name): [*changes, *removed] for name in names}
            errors |= admin.alter_configs(wanted, raise_errors=False).errors
        if partitions is not None and not errors:
            errors |= admin.create_partitions(dict.fromkeys(names, partitions), raise_errors=False).errors
    finish(errors)
    for name in names:
        echo(f"{name} changed")
