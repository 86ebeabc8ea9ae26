"""What `klamm pipe` prints: a job, what it finds on its cluster, a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from klamm.spark.pipe.job import Job
    from klamm.spark.pipe.survey import Survey


def explained(job: Job, *, analysis: str | None = None) -> list[str]:
    """What a job does, line by line; `analysis` has the columns that Spark found."""
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
    given = (("the SQL", job.sql), ("the function", job.function), ("source.schema", job.schema))
    unread = [name for name, text in given if text]
    if analysis is not None:
        lines.append(f"columns      {analysis}")
    elif unread:
        lines.append(f"not checked  {' and '.join(unread)}: --spark has Spark check that")
    lines += [
        f"warning      the job reads topic {name} and writes to it: it ends only if the transform drops what "
        "it wrote"
        for name in job.loops
    ]
    return lines


def found(job: Job, survey: Survey) -> list[str]:
    """What is on the cluster, line by line."""
    lines = ["", f"answers      {_number(survey.broker_count, 'broker')}, cluster {survey.cluster_id}"]
    for name, count in survey.partition_counts.items():
        lines.append(f"topic        {name}: {'missing' if count is None else _number(count, 'partition')}")
    checkpoint = survey.checkpoint
    if checkpoint is not None:
        what = "is done" if checkpoint.is_done else "was begun and is run again"
        lines.append(f"progress     batch {checkpoint.batch_id} of query {checkpoint.query_id} {what}")
    else:
        lines.append("progress     none: there is no checkpoint")
    if survey.committed:
        offsets = ", ".join(f"{key} at {offset:,}" for key, offset in sorted(survey.committed.items())[:8])
        more = f" and {len(survey.committed) - 8} more" if len(survey.committed) > 8 else ""
        lines.append(f"group        {job.name} has committed {offsets}{more}")
    else:
        lines.append(f"group        {job.name} has committed nothing")
    lines.append(f"would read   {_number(survey.unread_count, 'offset')} now")
    if survey.creates:
        lines.append(f"would create {', '.join(survey.creates)}")
    lines += [f"warning      {text}" for text in survey.warnings]
    lines += [f"problem      {text}" for text in survey.problems]
    return lines


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def batch_line(batch: Mapping[str, Any]) -> str:
    """A batch as a line for people."""
    state = ""
    if batch["state_rows"]:
        state = f"  {batch['state_rows']:,} rows of state, {batch['state_bytes'] / 1024:,.0f} KiB"
    return (
        f"batch {batch['batch']:<6} {batch['rows']:>9,} rows  {batch['rows_per_second']:>11,.0f} rows/s  "
        f"lag {batch['lag']:,}  {batch['ms']:,} ms{state}"
    )
