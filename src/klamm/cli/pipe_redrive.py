"""`klamm pipe redrive`: dead letters go back into the topics that they came from."""

from __future__ import annotations

from typing import Annotated

import typer

from klamm.cli.cluster import Timeout, clear_errors
from klamm.cli.failures import MISUSED, fail
from klamm.cli.output import echo
from klamm.cli.pipe_jobs import File, loaded

PATIENCE_S = 30.0


def redrive(
    path: File,
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="TOPIC", help="Only letters whose record was in this topic."),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option("--partition", "-p", min=0, help="Only letters whose record was in this partition."),
    ] = None,
    offsets: Annotated[
        str | None,
        typer.Option(
            "--offsets",
            metavar="FIRST-LAST",
            help="Only letters whose record had one of these offsets, ends included.",
        ),
    ] = None,
    error_class: Annotated[
        str | None,
        typer.Option("--error-class", metavar="NAME", help="Only letters with this klamm.error.class."),
    ] = None,
    message: Annotated[
        str | None,
        typer.Option(
            "--message", metavar="TEXT", help="Only letters whose klamm.error.message has this text in it."
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="At most so many letters; default: all.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="TOPIC", help="The topic to write to; default: the one that a letter came from."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell what would be put back, and change nothing.")
    ] = False,
    timeout: Timeout = PATIENCE_S,
) -> None:
    """Put dead letters back into the topics that they came from, for the job to read them again.

    All of them in one transaction, each letter once: what was put back is noted as offsets of the group
    JOB.redrive, and a second redrive leaves it out. Letters that no option picks stay for later. A record has
    its key, value and headers, and header klamm.redrives, which counts. The job may run meanwhile.
    """
    job = loaded(path)
    from klamm.spark.pipe.redriving import LetterFilter  # noqa: PLC0415 - an extra
    from klamm.spark.pipe.redriving import redrive as put_back  # noqa: PLC0415

    first, last = _offsets(offsets)
    wanted = LetterFilter(
        topic=topic,
        partition=partition,
        first_offset=first,
        last_offset=last,
        error_class=error_class,
        message=message,
        limit=limit,
    )
    with clear_errors():
        done = put_back(job, wanted, to=to, dry_run=dry_run, timeout_s=timeout)
    verb = "would put back" if dry_run else "put back"
    echo(f"{verb} {done.count:,} of {done.count + done.left_count:,} dead letters of {job.dead_letters}")
    for name, count in sorted(done.by_topic.items()):
        echo(f"  {count:>9,}  into {name}")
    for text, count in sorted(done.by_message.items(), key=lambda item: -item[1])[:10]:
        echo(f"  {count:>9,}  {text}")


def _offsets(text: str | None) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    first, dash, last = text.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        fail(f"invalid value {text} for --offsets: expected FIRST-LAST, as in 120-140", MISUSED)
    return int(first), int(last or first)
