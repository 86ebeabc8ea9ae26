"""Fits a checkpoint to a job that has changed, before the query starts: sources and topics come and go.

Spark keeps, for each batch, where each source ends, and refuses a query with another number of sources. Dead
letters are read by a source of their own, which begins where the other one is; a topic begins at its first
record, and one that is not read any more has no offsets. Only the last two batches matter to Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from klamm.protocol.types import TopicPartition
from klamm.spark.pipe.changes import JobChange, changes
from klamm.spark.pipe.checkpoints import (
    Checkpoint,
    CheckpointError,
    OffsetEntry,
    read_checkpoint,
    read_entry,
    write_entry,
)
from klamm.spark.pipe.failures import NEEDS_CHECKPOINT, JobFailedError
from klamm.spark.pipe.job import Job
from klamm.spark.pipe.record import JobRecord, RecordError, read_record
from klamm.spark.read.positions import OffsetJson, Positions, from_json, initial_of, to_json

ADVICE: Final = (
    "klamm pipe migrate JOB.toml makes a new checkpoint that starts where this one stopped; "
    "klamm pipe check JOB.toml shows every change"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStanding:
    """A checkpoint beside its job: where it is, what it was made with, what has changed since."""

    checkpoint: Checkpoint | None
    record: JobRecord | None
    changes: tuple[JobChange, ...] = ()

    @property
    def refusals(self) -> list[JobChange]:
        return [change for change in self.changes if change.needs_checkpoint]


def standing(job: Job, now: JobRecord) -> JobStanding:
    """Compare a job with its checkpoint. Raises CheckpointError when that cannot be read."""
    checkpoint = read_checkpoint(job.checkpoint)
    try:
        record = read_record(job.checkpoint)
    except RecordError as error:
        raise CheckpointError(str(error)) from error
    if checkpoint is None or record is None:
        return JobStanding(checkpoint=checkpoint, record=record)
    return JobStanding(checkpoint=checkpoint, record=record, changes=tuple(changes(record, now, checkpoint)))


def check_fits(job: Job, now: JobRecord) -> JobStanding:
    """The same before a run. Raises JobFailedError when the checkpoint is not one of this job."""
    try:
        found = standing(job, now)
    except CheckpointError as error:
        raise JobFailedError(f"{error}; {ADVICE}", NEEDS_CHECKPOINT) from error
    if found.refusals:
        reasons = "; ".join(map(str, found.refusals))
        raise JobFailedError(f"checkpoint {job.checkpoint}: {reasons}. {ADVICE}", NEEDS_CHECKPOINT)
    return found


def fit(
    job: Job, found: JobStanding, *, source_count: int, firsts: Mapping[TopicPartition, int]
) -> list[str]:
    """Write the checkpoint's last batches as this job needs them, and tell what was changed.

    `source_count` has the source of dead letters in it, which is the last one; `firsts` are the first offsets
    of the partitions to read.
    """
    checkpoint = found.checkpoint
    if checkpoint is None:
        return []
    told: list[str] = []
    for batch_id in sorted({max(0, checkpoint.batch_id - 1), checkpoint.batch_id}):
        try:
            entry = read_entry(job.checkpoint, batch_id)
        except CheckpointError:
            if batch_id == checkpoint.batch_id:
                raise
            continue  # Spark has removed it, and does not need it
        fitted, told = _fitted(entry, job, source_count, firsts)
        if fitted != entry:
            write_entry(job.checkpoint, batch_id, fitted)
    return told


def _fitted(
    entry: OffsetEntry, job: Job, source_count: int, firsts: Mapping[TopicPartition, int]
) -> tuple[OffsetEntry, list[str]]:
    told = []
    sources = list(entry.sources)
    if len(sources) == source_count - 1 and job.dead_letters is not None:
        sources.append(sources[0])
        told.append(f"dead letters are read from where the job is, for {job.dead_letters}")
    elif len(sources) == source_count + 1 and job.dead_letters is None:
        _check_dropped(from_json(sources[0]), from_json(sources.pop()), job)
        told.append("dead letters are not read any more")
    elif len(sources) != source_count:
        raise JobFailedError(
            f"checkpoint {job.checkpoint} has {len(sources)} sources, the job {source_count}: {ADVICE}",
            NEEDS_CHECKPOINT,
        )
    fitted = [_with_topics(source, job.topics, firsts) for source in sources]
    if fitted != sources:
        told.append(f"the checkpoint now has the topics {', '.join(job.topics)}")
    return replace(entry, sources=tuple(fitted)), told


def _check_dropped(rows: Positions, dead: Positions, job: Job) -> None:
    """Rows that the job has read, and dead letters not: values that do not fit there would be lost."""
    behind = sorted(key for key, offset in dead.items() if offset < rows.get(key, offset))
    if behind:
        raise JobFailedError(
            f"the search for dead letters has not reached offset {rows[behind[0]]} of {behind[0]}, up to "
            "which the job has read: set source.dead_letters again, run the job once with "
            'trigger = "once", and remove it then',
            NEEDS_CHECKPOINT,
        )


def _with_topics(
    source: OffsetJson, topics: Collection[str], firsts: Mapping[TopicPartition, int]
) -> OffsetJson:
    if not source:
        return source
    positions = from_json(source)
    present = {partition.topic for partition in positions}
    if present == set(topics):
        return source
    kept = _selected(positions, topics) | _selected(firsts, set(topics) - present)
    initial = initial_of(source)
    if initial is None:
        return to_json(kept)
    started = _selected(initial, topics) | _selected(firsts, set(topics) - present)
    return to_json(kept, started)


def _selected(positions: Mapping[TopicPartition, int], topics: Collection[str]) -> Positions:
    return {partition: offset for partition, offset in positions.items() if partition.topic in topics}
