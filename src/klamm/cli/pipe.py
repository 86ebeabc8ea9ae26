"""`klamm pipe`: jobs from topic to topic on Spark."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from klamm.cli.cluster import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT, Bootstrap, Timeout, clear_errors
from klamm.cli.failures import FAILED, MISUSED, fail
from klamm.cli.output import echo
from klamm.cli.pipe_checkpoints import adopt, migrate
from klamm.cli.pipe_jobs import File, cluster, jobs, loaded
from klamm.cli.pipe_lines import batch_line, explained, found
from klamm.cli.pipe_redrive import redrive
from klamm.cli.pipe_status import status

if TYPE_CHECKING:
    from klamm.spark.pipe.analysis import Analysis
    from klamm.spark.pipe.job import Job

CONTACT_S = 60.0  # how long a run waits for the cluster before it starts Spark
app = typer.Typer(rich_markup_mode=None, add_completion=False)

Master = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="The Spark master; default: local[*].")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per batch.")]
Restarts = Annotated[
    int | None,
    typer.Option(
        "--restarts",
        metavar="N",
        min=0,
        help="Give up after N failures in a row, whatever the cause. By default a cluster that is away is "
        "waited for without end, and a batch that fails three times for another cause ends the job.",
    ),
]


@app.callback(invoke_without_command=True)
def pipe(
    context: typer.Context,
    origin: Annotated[
        list[str] | None, typer.Option("--from", metavar="TOPIC", help="A topic to read; repeatable.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--to", metavar="TOPIC", help="The topic to write; needed without a job file."),
    ] = None,
    sql: Annotated[
        str | None,
        typer.Option(
            "--sql", help="The transform, as a query over the table `input`; default: rows stay as they are."
        ),
    ] = None,
    function: Annotated[
        str | None,
        typer.Option(
            "--function",
            metavar="MODULE:NAME",
            help="The transform, as a Python function of a DataFrame; default: rows stay as they are.",
        ),
    ] = None,
    source_format: Annotated[
        str,
        typer.Option("--format", help="The format of values: raw, json, csv, avro, json-schema or protobuf."),
    ] = "raw",
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema",
            metavar="COLUMNS",
            help='The columns of values, as in "id long, cents long"; needed for json and csv. With '
            "--schema-registry a subject, an id or a schema of Avro; default: the latest one of FROM-value.",
        ),
    ] = None,
    schema_registry: Annotated[
        str | None,
        typer.Option(
            "--schema-registry",
            metavar="URL",
            help="The URL of the schema registry; needed for the formats avro, json-schema and protobuf.",
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key", metavar="COLUMN", help="The column that is the key of written records; default: none."
        ),
    ] = None,
    dead_letters: Annotated[
        str | None,
        typer.Option(
            "--dead-letters",
            metavar="TOPIC",
            help="The topic for values that do not fit the schema; without one they end the job.",
        ),
    ] = None,
    mode: Annotated[
        str,
        typer.Option("--mode", help="The output mode of the query: append, or complete for aggregations."),
    ] = "append",
    delivery: Annotated[
        str, typer.Option("--delivery", help="The guarantee of delivery: exactly-once or at-least-once.")
    ] = "exactly-once",
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            help="The name of the group, the transactional id and the checkpoint; default: FROM-to-TO.",
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint",
            metavar="DIR",
            help="The folder for the progress of the job; default: checkpoints/NAME.",
        ),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Process what there is now, then end.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    master: Master = None,
    restarts: Restarts = None,
    as_json: AsJson = False,
) -> None:
    """Read topics, transform their rows, write a topic: exactly once by default. Needs Spark.

    \b
      klamm pipe run job.toml
      klamm pipe check job.toml
      klamm pipe --from orders --to revenue --format json --schema "product string, cents long" \\
          --mode complete --key product --sql "SELECT product, sum(cents) AS c FROM input GROUP BY product"

    \b
    Exit codes: 0 ended or stopped, 1 failed, 2 bad job, 3 fenced by another run of the job,
    4 records to read were deleted, 5 a record does not fit the schema and there is no dead-letter topic,
    6 rows of a decided batch are missing (txn.mode=per-task), 7 a batch fails whenever it is run: the
    transform raises, or stored records are damaged, 8 the checkpoint does not fit the job: `klamm pipe check`
    tells why, `klamm pipe migrate` makes a new one.
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
        **_given(checkpoint=checkpoint, schema_registry=schema_registry),
    }
    with clear_errors():
        job = jobs().job_of(tables, name=chosen, **cluster())
    _run(job, master, restarts, as_json)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


@app.command()
def run(path: File, master: Master = None, restarts: Restarts = None, as_json: AsJson = False) -> None:
    """Run a job until it ends or is stopped; after a failure that may pass, start again in 1 to 60 s.

    `klamm pipe --help` has the exit codes.
    """
    _run(loaded(path), master, restarts, as_json)


app.command()(migrate)
app.command()(adopt)
app.command()(redrive)
app.command()(status)


@app.command()
def check(
    path: File,
    offline: Annotated[bool, typer.Option("--offline", help="Check the file only.")] = False,
    with_spark: Annotated[
        bool, typer.Option("--spark", help="Start Spark, and have it check source.schema and the transform.")
    ] = False,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Check a job's file and its cluster, and print what would run. Changes nothing.

    Shows partitions of the topics, the progress of earlier runs, what has changed since the last one and
    whether the checkpoint survives it, how much there is to read, and what a run would create. Exit code 1 if
    the cluster does not answer or the job could not run, 2 if the file is wrong, 8 if the job needs a new
    checkpoint.
    """
    job = loaded(path)
    from klamm.spark.pipe.failures import NEEDS_CHECKPOINT  # noqa: PLC0415 - an extra
    from klamm.spark.pipe.survey import options_of, survey  # noqa: PLC0415

    with clear_errors():
        options_of(job, timeout)
    analysis = _analysis(job) if with_spark else None
    for line in explained(job, analysis=analysis.columns if analysis else None):
        echo(line)
    if offline:
        return
    with clear_errors():
        seen = survey(job, timeout_s=timeout, plan=analysis.plan if analysis else None)
    for line in found(job, seen, path):
        echo(line)
    if seen.needs_checkpoint:
        raise typer.Exit(NEEDS_CHECKPOINT)
    if seen.problems:
        raise typer.Exit(FAILED)


def _analysis(job: Job) -> Analysis:
    from klamm.spark.pipe.analysis import analysed  # noqa: PLC0415 - an extra

    spark = _session(job, "local[1]")
    try:
        with clear_errors():
            found: Analysis = analysed(spark, job)
            return found
    finally:
        spark.stop()


def _run(job: Job, master: str | None, restarts: int | None, as_json: bool) -> None:
    try:
        _run_until_stopped(job, master, restarts, as_json)
    except KeyboardInterrupt:
        # Whenever it comes: while the cluster is waited for or Spark starts, too.
        echo("stopped", err=True)


def _run_until_stopped(job: Job, master: str | None, restarts: int | None, as_json: bool) -> None:
    from klamm.spark.pipe.failures import JobFailedError  # noqa: PLC0415 - an extra
    from klamm.spark.pipe.running import run as run_job  # noqa: PLC0415
    from klamm.spark.pipe.survey import missing_at_start  # noqa: PLC0415

    def report(batch: Mapping[str, Any]) -> None:
        echo(json.dumps(batch) if as_json else batch_line(batch))

    def say(text: str) -> None:
        echo(f"klamm: {text}", err=True)

    # Before Spark starts, which takes its time.
    with clear_errors():
        missing = missing_at_start(job, timeout_s=CONTACT_S)
    if missing:
        fail("; ".join(missing))
    for name in job.loops:
        say(f"the job reads topic {name} and writes to it: it ends only if the transform drops what it wrote")
    say(f"starting Spark on {master or 'this machine'}")
    spark = _session(job, master)
    say(f"Spark {spark.version} runs: reading {', '.join(job.topics)}, writing {job.target}")
    try:
        run_job(spark, job, say=say, report=report, restarts=restarts)
    except JobFailedError as error:
        fail(error, error.exit_code)
    finally:
        spark.stop()


def _session(job: Job, master: str | None) -> Any:
    """Spark, without what it writes to standard error when it starts; the command ends if it cannot."""
    from klamm.spark.setup.java import SparkSetupError  # noqa: PLC0415 - an extra
    from klamm.spark.setup.output import filtered_errors  # noqa: PLC0415
    from klamm.spark.setup.sessions import session  # noqa: PLC0415

    # Spark repeats as JSON what the command says in a line.
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        logging.getLogger(name).disabled = True
    try:
        with filtered_errors():
            return session(job.name, master=master, log_level="OFF", conf=job.spark)
    except SparkSetupError as error:
        fail(error)
