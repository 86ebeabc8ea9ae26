"""`klamm cluster`: its brokers, their disks, the features they agree on."""

from __future__ import annotations

import typer

from klamm.cli.cluster import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT,
    AsJson,
    Bootstrap,
    Timeout,
    an_admin,
    print_json,
    print_table,
)

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="The cluster itself, klamm or any Kafka: its brokers, their disks, its features.",
)


@app.command()
def describe(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, timeout: Timeout = DEFAULT_TIMEOUT, as_json: AsJson = False
) -> None:
    """Show the cluster's id, its controller and its brokers."""
    with an_admin(bootstrap, timeout) as admin:
        found = admin.describe_cluster()
    rows = [(item.broker_id, item.host, item.port, item.rack or "-") for item in found.brokers]
    if as_json:
        brokers = [dict(zip(("broker", "host", "port", "rack"), row, strict=True)) for row in rows]
        print_json({"cluster": found.cluster_id, "controller": found.controller_id, "brokers": brokers})
        return
    typer.echo(f"cluster {found.cluster_id}  controller {found.controller_id}")
    print_table(("broker", "host", "port", "rack"), rows)


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
