"""`klamm cluster`: its brokers, what they lead and why, their disks, the features they agree on."""

from __future__ import annotations

from collections import Counter
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
from klamm.cli.doctor import print_check
from klamm.cli.exit_codes import NEEDS_ATTENTION
from klamm.cli.explain import read_events
from klamm.cli.output import echo
from klamm.client.diagnosis.checks import health_checks
from klamm.errors import UnsupportedVersionError
from klamm.groups.story import clock_time

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="The cluster itself, klamm or any Kafka: its brokers, their disks, its features.",
)


@app.command()
def describe(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, timeout: Timeout = DEFAULT_TIMEOUT, as_json: AsJson = False
) -> None:
    """Show the cluster's id, its controller, its brokers, their state, and how many partitions each leads.

    A broker that is fenced does not run, or cannot reach the others (on klamm: its lease ended), and leads
    nothing. One that is absent has partitions, and the cluster does not know it.
    """
    with an_admin(bootstrap, timeout) as admin:
        try:
            found = admin.describe_cluster(include_fenced_brokers=True)
        except UnsupportedVersionError:  # brokers before Kafka 2.8: those that run
            found = admin.describe_cluster()
        topics = admin.describe_topics(admin.list_topics(internal=True)).values()
    partitions = [partition for topic in topics for partition in topic.partitions]
    leads = Counter(each.leader_id for each in partitions)
    preferred = Counter(each.leader_id for each in partitions if each.leader_id == each.replicas[0])
    columns = ("broker", "host", "port", "rack", "state", "leads", "preferred")
    rows: list[tuple[object, ...]] = [
        (
            item.broker_id,
            item.host,
            item.port,
            item.rack or "-",
            "fenced" if item.is_fenced else "active",
            leads[item.broker_id],
            preferred[item.broker_id],
        )
        for item in found.brokers
    ]
    known = {item.broker_id for item in found.brokers}
    absent = {broker_id for each in partitions for broker_id in each.replicas} - known
    rows += [(broker_id, "-", "-", "-", "absent", 0, 0) for broker_id in sorted(absent)]
    if as_json:
        brokers = [dict(zip(columns, row, strict=True)) for row in rows]
        print_json({"cluster": found.cluster_id, "controller": found.controller_id, "brokers": brokers})
        return
    echo(f"cluster {found.cluster_id}  controller {found.controller_id}")
    print_table(columns, rows)


@app.command()
def health(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, timeout: Timeout = DEFAULT_TIMEOUT, as_json: AsJson = False
) -> None:
    """Check the controller, the brokers, the leaders of all partitions and the disks.

    Exit code 0: all is well; 3: something needs attention. `klamm health` asks only whether a broker
    responds, and whether a disk is full.
    """
    with an_admin(bootstrap, timeout) as admin:
        checks = list(health_checks(admin))
    if as_json:
        print_json([check.as_json() for check in checks])
    else:
        for check in checks:
            print_check(check)
    if not all(check.is_ok for check in checks):
        raise typer.Exit(NEEDS_ATTENTION)


@app.command()
def rebalance(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, timeout: Timeout = DEFAULT_TIMEOUT, as_json: AsJson = False
) -> None:
    """Make the preferred broker of each partition its leader, where it runs."""
    with an_admin(bootstrap, timeout) as admin:
        results = admin.elect_leaders(raise_errors=False)
    moved = sorted(str(partition) for partition, has_moved in results.successes.items() if has_moved)
    if as_json:
        errors = {str(partition): str(error) for partition, error in results.errors.items()}
        print_json({"moved": moved, "errors": errors})
    elif not moved and not results.errors:
        echo("Every partition is led by its preferred broker.")
    else:
        for partition in moved:
            echo(f"{partition} moved to its preferred broker")
    finish(results.errors)


@app.command()
def moves(
    last: Annotated[int, typer.Option("--last", help="Print only this many moves; 0 for all.")] = 20,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Show which partitions moved from one broker to another, and why.

    Reads the topic __klamm_events, which only klamm's broker writes.
    """
    found = [event for event in read_events(bootstrap, timeout) if event.get("type") == "leader_changed"]
    found.sort(key=lambda event: event["timestamp_ms"])  # several brokers write them
    shown = found[-last:] if last > 0 else found
    if as_json:
        print_json(shown)
        return
    if not found:
        echo("No moves recorded.")
        return
    print_table(
        ("time", "topic", "partition", "from", "to", "epoch", "cause"),
        [
            (
                clock_time(event["timestamp_ms"]),
                event["topic"],
                event["partition"],
                event["former_leader"],
                event["leader"],
                event["leader_epoch"],
                event["cause"],
            )
            for event in shown
        ],
    )


@app.command(name="log-dirs")
def log_dirs(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, timeout: Timeout = DEFAULT_TIMEOUT, as_json: AsJson = False
) -> None:
    """Show the log directories of every broker: what is used, what is free, the largest partitions."""
    with an_admin(bootstrap, timeout) as admin:
        found = admin.describe_log_dirs()
    facts = [
        {
            "broker": item.broker_id,
            "path": item.path,
            "error": None if item.error is None else str(item.error),
            "log_bytes": sum(item.partitions.values()),
            "free_bytes": item.usable_bytes,
            "disk_bytes": item.total_bytes,
            "partitions": {str(key): size for key, size in sorted(item.partitions.items())},
        }
        for item in found
    ]
    if as_json:
        print_json(facts)
        return
    names = ("broker", "path", "log_bytes", "free_bytes", "disk_bytes")
    print_table(
        [*(name.replace("_", " ") for name in names), "partitions", "error"],
        [
            (*(fact[name] for name in names), len(item.partitions), fact["error"] or "-")
            for fact, item in zip(facts, found, strict=True)
        ],
    )


@app.command()
def features(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, timeout: Timeout = DEFAULT_TIMEOUT, as_json: AsJson = False
) -> None:
    """Show the features that the brokers support, and the level that is in force."""
    with an_admin(bootstrap, timeout) as admin:
        found = admin.describe_features()
    if as_json:
        print_json(
            {
                name: {"min": item.min_level, "max": item.max_level, "level": item.level}
                for name, item in found.items()
            }
        )
        return
    rows = [
        (name, item.min_level, item.max_level, "-" if item.level is None else item.level)
        for name, item in sorted(found.items())
    ]
    print_table(("feature", "min", "max", "level"), rows)
