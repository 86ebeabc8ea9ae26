"""What a checkpoint was made with: the job, its plan and its versions, in a file beside what Spark keeps.

Spark's own files tell offsets and state, but not what they are of. With this file a change of the job is
found before Spark fails on it, and can be named.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import pyspark

from klamm.client.config import CONSUMER
from klamm.spark.options.names import CLIENT_PREFIX
from klamm.spark.pipe.folders import exists, replace_text, text_of
from klamm.spark.pipe.job import Job
from klamm.spark.pipe.plan import PlanFacts
from klamm.spark.read.positions import Positions, from_json, to_json
from klamm.version import __version__

NAME: Final = "klamm-job.json"
FORMAT: Final = 1
HIDDEN: Final = "[hidden]"  # in place of a secret: the file is for everybody who may see the checkpoint
_LIKE_SECRETS: Final = r"(?i)secret|password|token|access[.]?key|user[.]?info"  # as Spark hides values


class RecordError(Exception):
    """The record of a checkpoint cannot be understood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """The job that a checkpoint belongs to. Without a plan, no run has started on it yet."""

    settings: Mapping[str, Any]  # by the name of the key in the job's file
    spark: str
    klamm: str
    cluster_id: str | None = None
    plan: PlanFacts | None = None
    start: Positions | None = None  # where the first batch starts, instead of at `source.start`
    dead_start: Positions | None = None  # the same for the source of dead letters, if that is elsewhere


def record_of(job: Job, *, cluster_id: str | None = None, plan: PlanFacts | None = None) -> JobRecord:
    """The record of a job as it is now."""
    settings = {
        "name": job.name,
        "delivery": job.delivery,
        "trigger": job.trigger,
        "schema_registry": _without_user(job.schema_registry),
        "source.topics": sorted(job.topics),
        "source.format": job.source_format,
        "source.schema": job.schema,
        "source.start": job.start,
        "source.dead_letters": job.dead_letters,
        "source.max_per_batch": job.max_per_batch,
        "source.options": without_secrets(job.source_options),
        "transform.sql": job.sql,
        "transform.function": job.function,
        "code": _code_of(job.function),
        "sink.topic": job.target,
        "sink.key": job.key,
        "sink.format": job.sink_format,
        "sink.schema": job.sink_schema,
        "sink.mode": job.mode,
        "sink.parallelism": job.parallelism,
        "sink.options": without_secrets(job.sink_options),
        "spark": without_secrets(job.spark),
    }
    return JobRecord(
        settings=settings, spark=pyspark.__version__, klamm=__version__, cluster_id=cluster_id, plan=plan
    )


def without_secrets(options: Mapping[str, str]) -> dict[str, str]:
    """Options as they may be written down."""
    return {name: HIDDEN if _is_secret(name) else value for name, value in options.items()}


def with_secrets(written: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Options that were written down, with the secrets of today."""
    return {
        name: now.get(name, value) if value == HIDDEN else value
        for name, value in written.items()
        if value != HIDDEN or name in now
    }


def _is_secret(name: str) -> bool:
    setting = CONSUMER.settings.get(name.lower().removeprefix(CLIENT_PREFIX))
    return (setting is not None and setting.is_sensitive) or re.search(_LIKE_SECRETS, name) is not None


def _without_user(url: str | None) -> str | None:
    if url is None or "@" not in url:
        return url
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{HIDDEN}@{rest.rpartition('@')[2]}"


def _code_of(function: str | None) -> str | None:
    """A digest of the module that has the transform; None where its source is not to be had."""
    if function is None:
        return None
    try:
        source = inspect.getsource(importlib.import_module(function.partition(":")[0]))
    except (OSError, TypeError):
        return None
    return sha256(source.encode()).hexdigest()[:16]


def read_record(checkpoint: str) -> JobRecord | None:
    """The record beside a checkpoint; None when there is none. Raises RecordError."""
    location = f"{checkpoint.rstrip('/')}/{NAME}"
    if not exists(location):
        return None
    try:
        tree = json.loads(text_of(location))
        number = int(tree["format"])
        if number > FORMAT:
            raise RecordError(
                f"{location} was written by klamm {tree.get('klamm')}, which is newer than this one "
                f"({__version__}): use that version"
            )
        plan = tree.get("plan")
        return JobRecord(
            settings=dict(tree["job"]),
            spark=str(tree["spark"]),
            klamm=str(tree["klamm"]),
            cluster_id=tree.get("cluster"),
            plan=None if plan is None else PlanFacts(int(plan["sources"]), tuple(plan["state"])),
            start=_positions(tree, "start"),
            dead_start=_positions(tree, "dead_start"),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordError(
            f"{location} cannot be read ({type(error).__name__}: {error}): remove it, and the job is not "
            "compared with the run before"
        ) from error


def _positions(tree: Mapping[str, Any], name: str) -> Positions | None:
    return from_json(tree[name]) if name in tree else None


def write_record(checkpoint: str, record: JobRecord) -> None:
    """Put the record beside the checkpoint, in place of the one before."""
    tree: dict[str, Any] = {
        "format": FORMAT,
        "klamm": record.klamm,
        "spark": record.spark,
        "cluster": record.cluster_id,
        "job": dict(record.settings),
    }
    if record.plan is not None:
        tree["plan"] = {"sources": record.plan.source_count, "state": list(record.plan.state)}
    for name, positions in (("start", record.start), ("dead_start", record.dead_start)):
        if positions is not None:
            tree[name] = to_json(positions)
    replace_text(f"{checkpoint.rstrip('/')}/{NAME}", json.dumps(tree, indent=1) + "\n")
