"""`klamm audit`: what happened in a cluster's groups and transactions, as tables and one report."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from klamm.cli.cluster import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, clear_errors, pairs
from klamm.cli.failures import fail
from klamm.cli.output import echo
from klamm.cli.profiles import profile_settings
from klamm.client.admin.admin import Admin
from klamm.extras import install_command

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def audit(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="The folder for the tables and the report.")
    ] = Path("klamm-audit"),
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Write the report only, without the tables.")
    ] = False,
    master: Annotated[
        str | None, typer.Option("--master", metavar="URL", help="The Spark master; default: local[*].")
    ] = None,
    stuck_after: Annotated[
        float,
        typer.Option(
            "--stuck-after",
            metavar="SECONDS",
            min=0,
            help="Report a group as stuck that lags without progress for this many seconds.",
        ),
    ] = 300.0,
    client: Annotated[
        list[str] | None,
        typer.Option(
            "--client", metavar="NAME=VALUE", help="A setting of the clients that read; repeatable."
        ),
    ] = None,
) -> None:
    """Read the coordinators' topics of any cluster; write their tables as Parquet and report.html.

    Covers __consumer_offsets and __transaction_state, and __klamm_events where the broker writes it: then the
    causes of rebalances are exact. On Apache Kafka they are inferred, and marked so. Needs Spark.

    \b
      klamm audit -b broker:9092
      klamm audit -b broker:9092 -o /tmp/audit --stuck-after 60
    """
    settings = {**profile_settings(), **pairs(client or [], "--client")}
    try:
        from klamm.spark.setup.java import SparkSetupError  # noqa: PLC0415 - an extra
    except ImportError:
        fail(f"klamm audit needs Spark: {install_command('spark')}")
    with clear_errors():
        # Before Spark starts, which takes its time.
        with Admin({**settings, "bootstrap.servers": bootstrap}) as admin:
            admin.describe_cluster(timeout=DEFAULT_TIMEOUT)
        try:
            records, took_s = _run(bootstrap, output, report_only, master, stuck_after, settings)
        except SparkSetupError as error:
            fail(error)
    rate = f", {records / took_s:,.0f} a second" if took_s >= 1 else ""
    echo(f"{records:,} records read in {took_s:.1f} s{rate}. Report: {output / 'report.html'}")


def _run(
    bootstrap: str,
    output: Path,
    report_only: bool,
    master: str | None,
    stuck_after: float,
    settings: dict[str, str],
) -> tuple[int, float]:
    """The number of records, and how long it took to read them and to write tables and report."""
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    from klamm.spark.audit.figures import figures  # noqa: PLC0415 - an extra
    from klamm.spark.audit.report import write_report  # noqa: PLC0415
    from klamm.spark.audit.tables import Audit  # noqa: PLC0415
    from klamm.spark.setup.output import filtered_errors  # noqa: PLC0415
    from klamm.spark.setup.sessions import session  # noqa: PLC0415

    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    is_hidden = not sys.stdout.isatty()
    with Progress(*columns, transient=True, disable=is_hidden) as bar, ExitStack() as stack:
        task = bar.add_task("starting Spark", total=None)
        with filtered_errors():
            spark = session("klamm audit", master=master, quick=True, log_level="OFF", conf=_SETTINGS)
        stack.callback(spark.stop)
        started = time.monotonic()
        audit = Audit(spark, bootstrap, client=settings, stuck_ms=round(stuck_after * 1000))
        total = audit.record_count + audit.event_count
        bar.update(task, description="reading the logs", total=total)
        output.mkdir(parents=True, exist_ok=True)
        folder = output
        if report_only:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix=".tables-", dir=output)))
        audit.write(folder, progress=lambda done: bar.update(task, completed=done))
        bar.update(task, description="writing the report", completed=total)
        write_report(figures(audit), output / "report.html")
        return audit.record_count, time.monotonic() - started


_SETTINGS = {"spark.sql.session.timeZone": "UTC", "spark.driver.memory": "2g"}
