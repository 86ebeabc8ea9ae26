"""The job file that every command of `klamm pipe` takes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from klamm.cli.cluster import DEFAULT_BOOTSTRAP, clear_errors
from klamm.cli.failures import fail
from klamm.cli.profiles import profile_settings
from klamm.extras import install_command

if TYPE_CHECKING:
    from klamm.spark.pipe.job import Job

File = Annotated[Path, typer.Argument(metavar="JOB.toml", help="The file that describes the job, in TOML.")]


def loaded(path: Path) -> Job:
    with clear_errors():
        job: Job = jobs().load_job(path, **cluster())
    return job


def cluster() -> dict[str, Any]:
    """What the command line says of the cluster, for a job that does not."""
    return {
        "bootstrap": os.environ.get("KLAMM_BOOTSTRAP", DEFAULT_BOOTSTRAP),
        "client": profile_settings(),
    }


def jobs() -> Any:
    """The module of jobs; without Spark, the command ends with what to install."""
    try:
        from klamm.spark.pipe import job  # noqa: PLC0415 - an extra
    except ImportError as error:
        fail(f"klamm pipe needs Spark ({error}): {install_command('spark')}")
    return job
