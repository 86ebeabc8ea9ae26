"""What `klamm pipe` prints: a job, what it finds on its cluster, a batch."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

SILENT_MS = 15_000  # a job that runs notes so every five seconds

if TYPE_CHECKING:
    from klamm.spark.pipe.job import Job
    from klamm.spark.pipe.notes import JobNotes
    from klamm.spark.pipe.status import JobStatus
    from klamm.spark.pipe.survey import Survey


def explained(job: Job, *, analysis: str | None = None) -> list[str]:
    """What a job does, line by line; `analysis` has the columns that Spark found."""
    value = "as they are"
    if job.has_schemas:
        value = f"as {job.source_format} with schema {job.schema or 'latest'} of {job.schema_registry}"
    elif job.source_format != "raw":
        value = f"as {job.source_format} with columns {job.schema}"
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


def found(job: Job, survey: Survey, path: Path) -> list[str]:
    """What is on the cluster, line by line."""
    lines = ["", f"answers      {_number(survey.broker_count, 'broker')}, cluster {survey.cluster_id}"]
    for name, count in survey.partition_counts.items():
        lines.append(f"topic        {name}: {'missing' if count is None else _number(count, 'partition')}")
    checkpoint = survey.checkpoint
    if checkpoint is not None:
        what = "is done" if checkpoint.is_done else "was begun and is run again"
        lines.append(f"progress     batch {checkpoint.batch_id} of query {checkpoint.query_id} {what}")
    elif survey.misfit is None:
        lines.append("progress     none: there is no checkpoint")
    lines += [f"changed      {change}" for change in survey.changes]
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
    if survey.misfit is not None:
        lines.append(f"problem      {survey.misfit}")
    lines += [f"problem      {text}" for text in survey.problems]
    if survey.needs_checkpoint:
        lines.append(f"next         klamm pipe migrate {path}")
    return lines


def _number(count: int, what: str, many: str | None = None) -> str:
    return f"{count:,} {what if count == 1 else many or what + 's'}"


def standing(job: Job, status: JobStatus, now_ms: int) -> list[str]:
    """How a job stands, line by line."""
    notes = status.notes
    lines = [f"job          {job.name}", f"state        {_state(notes, now_ms)}"]
    if notes is not None:
        lines += _counts(notes, status.uncounted, now_ms)
    checkpoint = status.checkpoint
    if checkpoint is not None:
        what = "has ended" if checkpoint.is_done else "was begun and has not ended"
        lines.append(f"progress     batch {checkpoint.batch_id} {what}")
    else:
        lines.append(f"progress     none: checkpoint {job.checkpoint} has no batch")
    known = [count for count in (status.lag or {}).values() if count is not None]
    lines.append(f"lag          {_lag(status.lag)}")
    if status.held_back:
        lines.append(
            f"held back    {_number(status.held_back, 'offset')} behind transactions that are open: they are "
            "not in the lag"
        )
    if status.oldest_unread_ms is not None:
        least = "" if status.is_oldest_known else "at least "
        age = _ago(status.oldest_unread_ms, now_ms)
        lines.append(f"oldest       unread record: {least}{age} old, of {_instant(status.oldest_unread_ms)}")
    elif sum(known):
        lines.append("oldest       unread record: not known, none came within 5 s")
    return lines + [f"problem      {text}" for text in status.problems]


def _lag(lag: Mapping[Any, int | None] | None) -> str:
    known = [count for count in (lag or {}).values() if count is not None]
    if lag is None or not known:
        return "not known"
    total, where = _number(sum(known), "offset"), _number(len(known), "partition")
    if len(known) == len(lag):
        return f"{total} in {where}"
    return f"at least {total}: {where} of {len(lag)} known"


def _state(notes: JobNotes | None, now_ms: int) -> str:
    if notes is None:
        return "not known: no run of this job has left a note beside the checkpoint"
    last, ago = _instant(notes.updated_ms), _ago(notes.updated_ms, now_ms)
    if notes.state != "running":
        return f"{notes.state} {ago} ago, at {last}"
    if now_ms - notes.updated_ms > SILENT_MS:
        return (
            f"no sign since {last} ({ago} ago): it was killed, its machine is gone, or it waits for "
            f"the cluster ({notes.place})"
        )
    return f"running since {_instant(notes.run_since_ms)} ({notes.place})"


def _counts(notes: JobNotes, uncounted: int, now_ms: int) -> list[str]:
    lines = [
        f"counted      {_number(notes.batches, 'batch', 'batches')} since {_instant(notes.since_ms)}: read "
        f"{notes.read:,}, written {notes.written:,}, dead letters {notes.dead_letters:,}"
    ]
    if uncounted and notes.state != "running":
        count = _number(uncounted, "batch", "batches")
        lines.append(f"not counted  {count}, which ended before there were notes, or just before a kill")
    if notes.last_batch_ms is not None:
        lines.append(f"last batch   {notes.last_batch}, {_ago(notes.last_batch_ms, now_ms)} ago")
    if notes.last_failure is not None and notes.last_failure_ms is not None:
        lines.append(
            f"failed       {_number(notes.failures, 'time')}, the last {_ago(notes.last_failure_ms, now_ms)} "
            f"ago: {notes.last_failure}"
        )
    return lines


def _instant(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _ago(time_ms: int, now_ms: int) -> str:
    seconds = max(0, now_ms - time_ms) // 1000
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def batch_line(batch: Mapping[str, Any]) -> str:
    """A batch as a line for people."""
    state = ""
    if batch["state_rows"]:
        state = f"  {batch['state_rows']:,} rows of state, {batch['state_bytes'] / 1024:,.0f} KiB"
    dead = ""
    if batch["dead_letters"]:
        dead = f"  {_number(batch['dead_letters'], 'dead letter')}, first {batch['first_dead_letter']}"
    return (
        f"batch {batch['batch']:<6} {batch['rows']:>9,} rows  {batch['rows_per_second']:>11,.0f} rows/s  "
        f"lag {batch['lag']:,}  {batch['ms']:,} ms{state}{dead}"
    )
