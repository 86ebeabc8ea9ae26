"""`klamm pipe status`: how a job stands, whether it runs or not."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from klamm.cli.cluster import DEFAULT_TIMEOUT, AsJson, Timeout, clear_errors
from klamm.cli.failures import FAILED
from klamm.cli.output import echo
from klamm.cli.pipe_jobs import File, loaded
from klamm.cli.pipe_lines import standing
from klamm.clock import SystemClock

if TYPE_CHECKING:
    from klamm.spark.pipe.status import JobStatus


def status(path: File, as_json: AsJson = False, timeout: Timeout = DEFAULT_TIMEOUT) -> None:
    """Tell how a job stands, whether it runs or not; changes nothing and needs no Spark session.

    Since when it runs or does not, how many records it has read and written, its dead letters, its last
    failure, how much there is to read, and how old the oldest unread record is. What it has done is from
    klamm-status.json beside its checkpoint, which a run writes. Exit code 1 if a part is not known, as the
    lag where the cluster does not answer, or if records that the job has not read are gone.
    """
    job = loaded(path)
    from klamm.spark.pipe.status import status_of  # noqa: PLC0415 - an extra

    with clear_errors():
        found = status_of(job, timeout_s=timeout)
    if as_json:
        echo(json.dumps(_tree(found)))
    else:
        for line in standing(job, found, SystemClock().timestamp_ms()):
            echo(line)
    if found.problems:
        raise typer.Exit(FAILED)


def _tree(found: JobStatus) -> dict[str, Any]:
    return {
        "notes": None if found.notes is None else asdict(found.notes),
        "batch": None if found.checkpoint is None else found.checkpoint.batch_id,
        "batch_has_ended": None if found.checkpoint is None else found.checkpoint.is_done,
        "batches_not_counted": found.uncounted,
        "lag": None if found.lag is None else {str(key): count for key, count in found.lag.items()},
        "held_back": found.held_back,
        "oldest_unread_ms": found.oldest_unread_ms,
        "is_oldest_known": found.is_oldest_known,
        "problems": found.problems,
    }
