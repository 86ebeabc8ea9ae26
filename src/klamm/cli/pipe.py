"""`klamm pipe`: jobs from topic to topic on Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from klamm.cli.cluster import DEFAULT_BOOTSTRAP, Bootstrap, clear_errors
from klamm.cli.failures import MISUSED, fail

if TYPE_CHECKING:
    from klamm.spark.pipe.job import Job

app = typer.Typer(rich_markup_mode=None, add_completion=False)

File = Annotated[Path, typer.Argument(metavar="JOB.toml", help="The job's file.")]
Master = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Spark master; local[*] by default.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per batch.")]
Restarts = Annotated[
    int | None,
    typer.Option(
        "--restarts", metavar="N", min=0, help="Give up after N failures in a row; never by default."
    ),
]


@app.callback(invoke_without_command=True)
def pipe(
    context: typer.Context,
    origin: Annotated[
        list[str] | None, typer.Option("--from", metavar="TOPIC", help="Topic to read.")
    ] = None,
    target: Annotated[str | None, typer.Option("--to", metavar="TOPIC", help="Topic to write.")] = None,
    sql: Annotated[str | None, typer.Option("--sql", help="Query over the table `input`.")] = None,
    function: Annotated[
        str | None, typer.Option("--function", metavar="MODULE:NAME", help="Python function of a DataFrame.")
    ] = None,
    source_format: Annotated[str, typer.Option("--format", help="Values: raw, json or csv.")] = "raw",
    schema: Annotated[
        str | None, typer.Option("--schema", metavar="COLUMNS", help='As in "id long, cents long".')
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="COLUMN", help="Key of the output.")] = None,
    dead_letters: Annotated[
        str | None, typer.Option("--dead-letters", metavar="TOPIC", help="For values that do not fit.")
    ] = None,
    mode: Annotated[str, typer.Option("--mode", help="append, or complete for aggregations.")] = "append",
    delivery: Annotated[
        str, typer.Option("--delivery", help="exactly-once or at-least-once.")
    ] = "exactly-once",
    name: Annotated[str | None, typer.Option("--name", help="Group, transactional id, checkpoint.")] = None,
    checkpoint: Annotated[str | None, typer.Option("--checkpoint", metavar="DIR")] = None,
    once: Annotated[bool, typer.Option("--once", help="What there is now, then end.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    master: Master = None,
    restarts: Restarts = None,
    as_json: AsJson = False,
) -> None:
    """Read topics, transform their rows, write a topic: exactly once by default. Needs klamm[spark].

    \b
      klamm pipe run job.toml
      klamm pipe check job.toml
      klamm pipe --from orders --to revenue --format json --schema "product string, cents long" \\
          --mode complete --key product --sql "SELECT product, sum(cents) AS c FROM input GROUP BY product"

    \b
    Exit codes: 0 ended or stopped, 1 failed, 2 bad job, 3 fenced by another run of the job,
    4 records to read were deleted, 5 a record does not fit the schema and there is no dead-letter topic,
    6 rows of a decided batch are missing (txn.mode=per-task).
    """
    if context.invoked_subcommand is not None:
        return
    if not origin or target is None:
        fail("klamm pipe needs --from TOPIC and --to TOPIC, or one of: run JOB.toml, check JOB.toml", MISUSED)
    chosen = name or re.sub(r"[^A-Za-z0-9._-]", "-", f"{'-'.join(origin)}-to-{target}")
    tables: dict[str, Any] = {
        "name": chosen,
        "bootstrap": bootstrap,
        "delivery": delivery,
        "trigger": "once" if once else "continuous",
        "source": _given(topics=origin, format=source_format, schema=schema, dead_letters=dead_letters),
        "transform": _given(sql=sql, function=function),
        "sink": _given(topic=target, key=key, mode=mode),
        **_given(checkpoint=checkpoint),
    }
    from klamm.spark.pipe.job import job_of  # noqa: PLC0415 - an extra

    with clear_errors():
        job = job_of(tables, name=chosen)
    _run(job, master, restarts, as_json)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


@app.command()
def run(path: File, master: Master = None, restarts: Restarts = None, as_json: AsJson = False) -> None:
    """Run a job until it ends or is stopped; after a failure that may pass, start again in 1 to 60 s."""
    _run(_loaded(path), master, restarts, as_json)


@app.command()
def check(path: File) -> None:
    """Check a job's file and print what would run. Starts no Spark and sends no request."""
    job = _loaded(path)
    for line in explained(job):
        typer.echo(line)


def _loaded(path: Path) -> Job:
    from klamm.spark.pipe.job import load_job  # noqa: PLC0415 - an extra

    with clear_errors():
        return load_job(path)


def explained(job: Job) -> list[str]:
    """What a job does, line by line."""
    value = (
        "as they are" if job.source_format == "raw" else f"as {job.source_format} with columns {job.schema}"
    )
    lines = [
        f"job          {job.name}",
        f"cluster      {job.bootstrap}",
        f"reads        {', '.join(job.topics)} from {job.start}, committed records only, values {value}",
    ]
    if job.sql is not None:
        lines.append(f"transforms   by SQL: {' '.join(job.sql.split())}")
    elif job.function is not None:
        lines.append(f"transforms   by Python: {job.function}")
    else:
        lines.append("transforms   nothing")
    key = f", key from column {job.key}" if job.key else ""
    lines.append(f"writes       {job.target} ({job.sink_format}{key}), output mode {job.mode}")
    if job.dead_letters:
        lines.append(f"dead letters {job.dead_letters}, in the same transaction")
    elif job.source_format != "raw":
        lines.append("dead letters none: a value that does not fit the schema ends the job with exit code 5")
    if job.is_exactly_once:
        lines.append(
            f"delivery     exactly once: transactional id {job.name}, group {job.name} in the transaction"
        )
    else:
        lines.append(f"delivery     at least once: group {job.name} follows the progress")
    lines.append(f"checkpoint   {job.checkpoint}")
    lines.append(f"trigger      {job.trigger}")
    return lines


def line(batch: Mapping[str, Any]) -> str:
    """A batch as a line for people."""
    state = ""
    if batch["state_rows"]:
        state = f"  {batch['state_rows']:,} rows of state, {batch['state_bytes'] / 1024:,.0f} KiB"
    return (
        f"batch {batch['batch']:<6} {batch['rows']:>9,} rows  {batch['rows_per_second']:>11,.0f} rows/s  "
        f"lag {batch['lag']:,}  {batch['ms']:,} ms{state}"
    )


def _run(job: Job, master: str | None, restarts: int | None, as_json: bool) -> None:
    from klamm.spark.pipe.running import JobFailedError  # noqa: PLC0415 - an extra
    from klamm.spark.pipe.running import run as run_job  # noqa: PLC0415
    from klamm.spark.setup.java import SparkSetupError  # noqa: PLC0415
    from klamm.spark.setup.sessions import session  # noqa: PLC0415

    def report(batch: Mapping[str, Any]) -> None:
        typer.echo(json.dumps(batch) if as_json else line(batch))

    def say(text: str) -> None:
        typer.echo(f"klamm: {text}", err=True)

    try:
        spark = session(job.name, master=master, log_level="OFF", conf=job.spark)
    except SparkSetupError as error:
        fail(error)
    try:
        run_job(spark, job, say=say, report=report, restarts=restarts)
    except JobFailedError as error:
        fail(error, error.exit_code)
    except KeyboardInterrupt:
        typer.echo("stopped", err=True)
    finally:
        spark.stop()
