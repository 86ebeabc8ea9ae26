"""`klamm audit`: what happened in a cluster's groups and transactions, as tables and one report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from klamm.cli.cluster import DEFAULT_BOOTSTRAP, Bootstrap, clear_errors, pairs
from klamm.cli.failures import fail

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def audit(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the tables and the report.")
    ] = Path("klamm-audit"),
    report_only: Annotated[bool, typer.Option("--report-only", help="Write no Parquet.")] = False,
    master: Annotated[
        str | None, typer.Option("--master", metavar="URL", help="Spark master; local[*] by default.")
    ] = None,
    stuck_after: Annotated[
        float,
        typer.Option("--stuck-after", metavar="SECONDS", min=0, help="A group that lags without progress."),
    ] = 300.0,
    client: Annotated[
        list[str] | None, typer.Option("--client", metavar="NAME=VALUE", help="A setting of Kafka's clients.")
    ] = None,
) -> None:
    """Read the coordinators' topics of any cluster; write their tables as Parquet and report.html.

    Covers __consumer_offsets and __transaction_state, and __klamm_events where the broker writes it: then the
    causes of rebalances are exact. On Apache Kafka they are inferred, and marked so. Needs klamm[spark].

    \b
      klamm audit -b broker:9092
      klamm audit -b broker:9092 -o /tmp/audit --stuck-after 60
    """
    started = time.monotonic()
    settings = pairs(client or [], "--client")
    try:
        from klamm.spark.setup.java import SparkSetupError  # noqa: PLC0415 - an extra
    except ImportError:
        fail("klamm audit needs Spark: pip install 'klamm[spark]'")
    with clear_errors():
        try:
            records = _run(bootstrap, output, report_only, master, stuck_after, settings)
        except SparkSetupError as error:
            fail(error)
    took_s = time.monotonic() - started
    typer.echo(f"{records:,} records read in {took_s:.1f} s. Report: {output / 'report.html'}")


def _run(
    bootstrap: str,
    output: Path,
    report_only: bool,
    master: str | None,
    stuck_after: float,
    settings: dict[str, str],
) -> int:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    from klamm.spark.setup.sessions import session  # noqa: PLC0415

    columns = (TextColumn("{task.description:<44}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, transient=True) as bar:
        task = bar.add_task("starting Spark", total=None)
        spark = session("klamm audit", master=master, quick=True, log_level="OFF", conf=_SETTINGS)
        try:
            return _audit(spark, bootstrap, output, report_only, stuck_after, settings, bar, task)
        finally:
            spark.stop()


_SETTINGS = {"spark.sql.session.timeZone": "UTC", "spark.driver.memory": "2g"}


def _audit(
    spark: Any,
    bootstrap: str,
    output: Path,
    report_only: bool,
    stuck_after: float,
    settings: dict[str, str],
    bar: Any,
    task: Any,
) -> int:
    from klamm.spark.audit.figures import figures  # noqa: PLC0415
    from klamm.spark.audit.report import write_report  # noqa: PLC0415
    from klamm.spark.audit.tables import BASE, CACHED, DERIVED, Audit  # noqa: PLC0415

    audit = Audit(spark, bootstrap, client=settings, stuck_ms=round(stuck_after * 1000))
    output.mkdir(parents=True, exist_ok=True)
    bar.update(task, total=len(CACHED) + 1 if report_only else len(BASE) + len(DERIVED) + 2)

    def show(name: str) -> None:
        bar.update(task, advance=1, description=f"{name} ({audit.record_count:,} records)")

    if report_only:
        audit.cache(progress=show)
    else:
        audit.write(output, progress=show)
    show("report")
    write_report(figures(audit), output / "report.html")
    return audit.record_count
