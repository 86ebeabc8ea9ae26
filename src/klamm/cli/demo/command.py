"""`klamm demo`: a tour in about a minute and a half."""

from __future__ import annotations

import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Annotated

import typer

from klamm.cli.demo.pipeline import REVENUE, PipelineResult
from klamm.cli.demo.pipeline import run as run_pipeline
from klamm.cli.demo.pipeline import start as start_pipeline
from klamm.cli.demo.play import PACE_S, DemoFailedError, GroupResult, Play
from klamm.cli.demo.screen import screen
from klamm.cli.failures import fail
from klamm.cli.output import echo
from klamm.clock import SystemClock
from klamm.errors import KlammError

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def demo(
    spark: Annotated[bool, typer.Option("--spark/--no-spark", help="Run the Spark job at the end.")] = True,
    plain: Annotated[bool, typer.Option("--plain", help="Print lines instead of a live view.")] = False,
    pace: Annotated[
        float, typer.Option("--pace", metavar="SECONDS", min=0, help="Seconds for which each step is shown.")
    ] = PACE_S,
) -> None:
    """Run a broker, a consumer group that rebalances, and a Spark job. Ends by itself.

    Six processes: a broker, members of a group that join, leave and are killed, and Spark. Nothing is left
    running, not even after Ctrl-C. Without Spark (the extra `spark`) it ends before the job.
    """
    # A signal must end the child processes too. A shell starts background jobs with SIGINT ignored.
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.default_int_handler)
    try:
        spark = spark and is_spark_here()
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="klamm-demo-")))
            group, pipeline = _perform(stack, folder, with_spark=spark, plain=plain, pace_s=pace)
            _summary(group, pipeline)
    except KeyboardInterrupt:
        echo("stopped; nothing is left running", err=True)
        raise typer.Exit(130) from None
    except (DemoFailedError, KlammError, RuntimeError) as error:
        fail(error)


def is_spark_here() -> bool:
    """Whether Spark can start, checked before the demo begins; prints what is missing."""
    from klamm.spark.setup.java import SparkSetupError  # noqa: PLC0415 - half of it is needed only here
    from klamm.spark.setup.sessions import prepare  # noqa: PLC0415

    try:
        prepare("local", say=lambda line: echo(line, err=True))
    except SparkSetupError as error:
        echo(f"without Spark: {error}", err=True)
        return False
    return True


def _perform(
    stack: ExitStack, folder: Path, *, with_spark: bool, plain: bool, pace_s: float
) -> tuple[GroupResult, PipelineResult | None]:
    with screen(is_terminal=sys.stdout.isatty() and not plain) as shown:
        play = Play(folder, shown, stack, SystemClock(), Random(), pace_s)
        # Spark needs some ten seconds to start: the group uses them.
        job = start_pipeline(play.broker, folder) if with_spark else None
        if job is not None:
            stack.callback(job.stop)
        group = play.run()
        if job is None:
            return group, None
        shown.say(f"Spark streams over the same orders and writes to topic {REVENUE}")
        pipeline = run_pipeline(job, play.broker, shown)
        shown.say("Spark is done")
    return group, pipeline


def _summary(group: GroupResult, pipeline: PipelineResult | None) -> None:
    echo()
    echo(
        f"{group.sent} orders were sent. The group read every one of them through {group.rebalances} "
        f"rebalances; {group.repeated} were read twice, by the members that took over from the killed one."
    )
    if pipeline is None:
        return
    if (pipeline.orders, pipeline.revenue_cents) != (group.sent, group.revenue_cents):
        raise DemoFailedError(
            f"Spark counted {pipeline.orders} orders and {pipeline.revenue_cents} cents, "
            f"{group.sent} and {group.revenue_cents} were sent"
        )
    if pipeline.repeated:
        raise DemoFailedError(f"{pipeline.repeated} orders are in topic {REVENUE} more than once")
    if pipeline.lag:
        raise DemoFailedError(f"Spark's group lags by {pipeline.lag} after its job ended")
    echo(
        f"Spark counted {pipeline.orders} orders worth {pipeline.revenue_cents / 100:.2f}, each exactly once "
        f"although the broker was killed meanwhile; its group has no lag. From topic {REVENUE}:"
    )
    for minute, product, orders, cents in pipeline.rows[:6]:
        echo(f"  {minute}  {product:<8} {orders:>5} orders {cents / 100:>10.2f}")
    echo(f"What the groups and transactions did: {pipeline.report}")
