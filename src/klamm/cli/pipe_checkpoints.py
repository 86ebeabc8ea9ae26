"""`klamm pipe migrate` and `adopt`: new checkpoints for a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from klamm.cli.cluster import DEFAULT_TIMEOUT, Timeout, clear_errors
from klamm.cli.output import echo
from klamm.cli.pipe_jobs import File, loaded

if TYPE_CHECKING:
    from klamm.spark.pipe.migrating import Migration


def migrate(path: File, timeout: Timeout = DEFAULT_TIMEOUT) -> None:
    """Give a job a new checkpoint that starts where the last run stopped.

    For changes of which `klamm pipe check` says that they need one. Every record that the last run has not
    written is read, and no other. The old checkpoint is kept beside the new one. Aggregations and joins start
    with empty state. No run of the job may be active: one that is ends with exit code 3.
    """
    job = loaded(path)
    from klamm.spark.pipe.migrating import migrate as make  # noqa: PLC0415 - an extra

    with clear_errors():
        made = make(job, timeout_s=timeout)
    _tell(job.checkpoint, made)


def adopt(
    origin: Annotated[
        str,
        typer.Argument(metavar="CHECKPOINT", help="The checkpoint of a query with Spark's Kafka connector."),
    ],
    path: File,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Give a job a checkpoint that starts where a query of Spark's own Kafka connector stopped.

    That query must have ended. Its checkpoint is only read. State is not taken along.
    """
    job = loaded(path)
    from klamm.spark.pipe.migrating import adopt as make  # noqa: PLC0415 - an extra

    with clear_errors():
        made = make(job, origin, timeout_s=timeout)
    _tell(job.checkpoint, made)


def _tell(checkpoint: str, made: Migration) -> None:
    offsets = ", ".join(f"{key} at {offset:,}" for key, offset in sorted(made.start.items())[:8])
    more = f" and {len(made.start) - 8} more" if len(made.start) > 8 else ""
    echo(f"checkpoint   {checkpoint}: the first batch starts at {offsets}{more}")
    echo(f"taken from   {made.origin}")
    if made.former is not None:
        echo(f"old one      {made.former}")
    if made.loses_state:
        echo("state        starts empty")
    if made.repeats:
        echo(f"repeats      {made.repeats:,} offsets at most: what was written of them is written again")
