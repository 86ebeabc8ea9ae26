"""`klamm demo`: everything at work, in about a minute and a half."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Annotated

import typer

from klamm.cli.demo.pipeline import PipelineResult
from klamm.cli.demo.pipeline import run as run_pipeline
from klamm.cli.demo.play import PACE_S, DemoFailedError, GroupResult, Play
from klamm.cli.demo.screen import screen
from klamm.cli.failures import fail
from klamm.client.errors import KlammError
from klamm.clock import SystemClock

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def demo(
    spark: Annotated[bool, typer.Option("--spark/--no-spark", help="With the Spark job at the end.")] = True,
    plain: Annotated[bool, typer.Option("--plain", help="Lines instead of a live picture.")] = False,
    pace: Annotated[
        float, typer.Option("--pace", metavar="SECONDS", min=0, help="How long to look at each step.")
    ] = PACE_S,
) -> None:
    """Show klamm at work: a broker, a consumer group that rebalances, a Spark job. Ends by itself.

    Six processes: a broker, members of a group that join, leave and are killed, and Spark. Nothing is left
    behind, not even after Ctrl-C. Spark comes with `pip install 'klamm[spark]'`.
    """
    if spark and importlib.util.find_spec("pyspark") is None:
        typer.echo("without Spark: pip install 'klamm[spark]' brings it", err=True)
        spark = False
    try:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="klamm-demo-")))
            group, pipeline = _perform(stack, folder, with_spark=spark, plain=plain, pace_s=pace)
            _summary(group, pipeline)
    except KeyboardInterrupt:
        typer.echo("stopped; nothing is left running", err=True)
        raise typer.Exit(130) from None
    except (DemoFailedError, KlammError, RuntimeError) as error:
        fail(error)


def _perform(
    stack: ExitStack, folder: Path, *, with_spark: bool, plain: bool, pace_s: float
) -> tuple[GroupResult, PipelineResult | None]:
    with screen(is_terminal=sys.stdout.isatty() and not plain) as shown:
        play = Play(folder, shown, stack, SystemClock(), Random(), pace_s)
        group = play.run()
        if not with_spark:
            return group, None
        shown.say("Spark starts (about ten seconds) and reads the same orders as a streaming job")
        pipeline = run_pipeline(play.bootstrap, folder)
        shown.say("Spark is done")
    return group, pipeline


def _summary(group: GroupResult, pipeline: PipelineResult | None) -> None:
    typer.echo()
    typer.echo(
        f"{group.sent} orders were sent. The group read every one of them through {group.rebalances} "
        f"rebalances; {group.repeated} were read twice, by whoever took over from the member that was killed."
    )
    if pipeline is None:
        return
    if (pipeline.orders, pipeline.revenue_cents) != (group.sent, group.revenue_cents):
        raise DemoFailedError(
            f"Spark counted {pipeline.orders} orders and {pipeline.revenue_cents} cents, "
            f"{group.sent} and {group.revenue_cents} were sent"
        )
    if pipeline.lag:
        raise DemoFailedError(f"Spark's group lags by {pipeline.lag} after its job ended")
    typer.echo(
        f"Spark counted {pipeline.orders} orders worth {pipeline.revenue_cents / 100:.2f}, to the cent what "
        "was sent, and its group has no lag."
    )
    for minute, product, orders, cents in pipeline.rows[:6]:
        typer.echo(f"  {minute}  {product:<8} {orders:>5} orders {cents / 100:>10.2f}")
