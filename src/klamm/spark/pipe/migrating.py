"""New checkpoints that go on where another one stopped: of this job, or of Spark's own Kafka connector."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from klamm.errors import KlammError
from klamm.protocol.types import TopicPartition
from klamm.spark.options.options import SinkOptions, SourceOptions, sink_options, source_options
from klamm.spark.pipe.checkpoints import (
    Checkpoint,
    CheckpointError,
    has_state,
    read_checkpoint,
    read_entry,
)
from klamm.spark.pipe.ends import reading, writing
from klamm.spark.pipe.job import Job
from klamm.spark.pipe.record import JobRecord, RecordError, read_record, record_of, with_secrets
from klamm.spark.pipe.replacing import end_replacement, replace_checkpoint
from klamm.spark.read.lookup import ClusterLookup
from klamm.spark.read.positions import Positions, from_json
from klamm.spark.write.decisions import Decision, is_decided, lowest
from klamm.spark.write.steps import CheckpointBehindError, Hook, nowhere
from klamm.spark.write.writers import protocol_of

_NOT_STARTED: Final = "the checkpoint that is there: it has no batch yet, and nothing was changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """What was done, for a person to read."""

    start: Positions
    origin: str  # what said so
    former: str | None  # where the old checkpoint is now
    loses_state: bool
    repeats: int = 0  # offsets that are read again, and may have been written already


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """Where a query stopped."""

    start: Positions
    dead_start: Positions | None
    origin: str
    loses_state: bool = False
    repeats: int = 0


def migrate(job: Job, *, timeout_s: float, at: Hook = nowhere) -> Migration:
    """Give the job a new checkpoint that starts where the old one stopped; state is not taken along.

    Ends what an earlier run has left open: none may be active. Done again, it changes nothing. `at` is called
    at each step. Raises KlammError, ConfigError.
    """
    end_replacement(job.checkpoint)
    record = _old_record(job.checkpoint)
    damage: CheckpointError | None = None
    try:
        checkpoint = read_checkpoint(job.checkpoint)
    except CheckpointError as error:
        checkpoint, damage = None, error  # what the group has committed is not damaged
    was = _as_it_was(job, record)
    lookup = ClusterLookup(_impatient(job, timeout_s))
    try:
        cluster_id = lookup.admin.describe_cluster().cluster_id
        if record is None or record.cluster_id in (None, cluster_id):
            if record is not None and record.start is not None and checkpoint is None and damage is None:
                return Migration(start=record.start, origin=_NOT_STARTED, former=None, loses_state=False)
            end = _end_here(was, checkpoint, lookup, at)
        else:
            end = _committed(job, lookup) or _committed(was, lookup)
        end = end or (_committed(job, lookup) if was.name != job.name else None)
    finally:
        lookup.close()
    if end is None:
        raise CheckpointError(
            f"there is no checkpoint {job.checkpoint} to go on from, and group {was.name} has no offsets"
        )
    return _begun(job, end, cluster_id, at)


def adopt(job: Job, origin: str, *, timeout_s: float, at: Hook = nowhere) -> Migration:
    """Give the job a checkpoint that starts where a query of Spark's Kafka connector stopped.

    The other checkpoint stays as it is. Done again before the job has run, it does the same. Raises
    KlammError, ConfigError.
    """
    end_replacement(job.checkpoint)
    if read_checkpoint(job.checkpoint) is not None:
        raise CheckpointError(f"the job has a checkpoint already: {job.checkpoint}")
    checkpoint = read_checkpoint(origin)
    if checkpoint is None:
        raise CheckpointError(f"{origin} is not a checkpoint of a query that has planned a batch")
    topics = {partition.topic for partition in checkpoint.next_offsets}
    if not topics & set(job.topics):
        raise CheckpointError(
            f"{origin} is of a query that reads {', '.join(sorted(topics))}: none is in source.topics"
        )
    lookup = ClusterLookup(_impatient(job, timeout_s))
    try:
        cluster_id = lookup.admin.describe_cluster().cluster_id
        lookup.topics()  # they are there
    finally:
        lookup.close()
    end = _End(
        start=checkpoint.next_offsets,
        dead_start=None,
        origin=f"batch {checkpoint.batch_id} of {origin}",
        loses_state=checkpoint.has_state,
        repeats=_difference(checkpoint.next_offsets, checkpoint.end_offsets),
    )
    return _begun(job, end, cluster_id, at)


def _end_here(was: Job, checkpoint: Checkpoint | None, lookup: ClusterLookup, at: Hook) -> _End | None:
    """Where the last run stopped: by its checkpoint, or by its group if that is gone, damaged or too old."""
    if checkpoint is not None:
        with suppress(CheckpointBehindError):
            return _stopped(was, checkpoint, at)
    if was.is_exactly_once and _committed(was, lookup) is not None:
        _fenced(replace(sink_options(writing(was)), checkpoint=None), at)
    return _committed(was, lookup)


def _fenced(options: SinkOptions, at: Hook) -> tuple[Decision, ...]:
    """Fence a run that is still active, and end what a crash has left open; then the decision stands."""
    planned = protocol_of(options).plan(options)
    at("fenced")
    if getattr(planned, "lost", ()):
        raise CheckpointError(
            f"rows of batch {planned.last.batch_id} are missing, which was decided: run the job as it was, "
            "to have them written"
        )
    decisions: tuple[Decision, ...] = planned.decisions
    return decisions


def _committed(job: Job, lookup: ClusterLookup) -> _End | None:
    """What the job's group has committed."""
    partitions = lookup.topics().partitions
    start = lookup.committed(job.name, partitions) if partitions else {}
    if not start:
        return None
    return _End(
        start=start,
        dead_start=None,
        origin=f"the offsets that group {job.name} has committed" + _beyond(job),
        loses_state=has_state(job.checkpoint),
    )


def _beyond(job: Job) -> str:
    """What an offset of the group does not tell."""
    if not job.is_exactly_once:
        return "; what was written after that commit is written again"
    if job.dead_letters is not None:
        return "; if rows or dead letters were read beyond them, these are written again"
    return ""


def _impatient(job: Job, timeout_s: float) -> SourceOptions:
    options = source_options(reading(job), is_streaming=True)
    timeout = {"default.api.timeout.ms": str(round(timeout_s * 1000))}
    return replace(options, client={**options.client, **timeout}, lookup_attempts=1)


def _old_record(checkpoint: str) -> JobRecord | None:
    try:
        return read_record(checkpoint)
    except RecordError as error:
        raise CheckpointError(str(error)) from error


def _as_it_was(job: Job, record: JobRecord | None) -> Job:
    """The job under the name and with the delivery of its last run, by which its last batch is known."""
    if record is None:
        return job
    was = record.settings
    return replace(
        job,
        name=str(was.get("name", job.name)),
        delivery=str(was.get("delivery", job.delivery)),
        sink_options=with_secrets(was.get("sink.options") or {}, job.sink_options),
        dead_letters=was.get("source.dead_letters"),
    )


def _stopped(was: Job, checkpoint: Checkpoint, at: Hook) -> _End:
    """Where a checkpoint's query stopped: its last batch has ended, was committed, or is run again."""
    done, repeats = checkpoint.is_done, 0
    if was.is_exactly_once:
        decisions = _fenced(sink_options(writing(was)), at)
        done = done or is_decided(decisions, checkpoint.key)
    elif not done:
        repeats = _difference(checkpoint.next_offsets, checkpoint.end_offsets)
    batch_id = checkpoint.batch_id if done else checkpoint.batch_id - 1
    origin = (
        f"batch {batch_id} of checkpoint {was.checkpoint}"
        if batch_id >= 0
        else "the start of its first batch"
    )
    start, dead = checkpoint.end_offsets if done else checkpoint.next_offsets, None
    if checkpoint.source_count > 1 and batch_id >= 0:
        found = [from_json(item) for item in read_entry(was.checkpoint, batch_id).sources]
        if was.dead_letters is not None and len(found) > 1:  # else they were being taken out
            dead = found.pop()
        # A transform that reads its input twice has two sources; they end where each was when it was asked.
        start = lowest(found)
        repeats += sum(_difference(start, positions) for positions in found)
    return _End(
        start=start, dead_start=dead, origin=origin, loses_state=checkpoint.has_state, repeats=repeats
    )


def _difference(start: Positions, end: Positions) -> int:
    return sum(max(0, offset - start.get(key, offset)) for key, offset in end.items())


def _begun(job: Job, end: _End, cluster_id: str, at: Hook) -> Migration:
    """Put the old checkpoint aside, and the new one in its place."""
    start = _of_topics(end.start, job)
    record = replace(record_of(job, cluster_id=cluster_id), start=start)
    if end.dead_start is not None:
        record = replace(record, dead_start=_of_topics(end.dead_start, job))
    try:
        former = replace_checkpoint(job.checkpoint, record, at=at)
    except OSError as error:
        raise KlammError(f"writing checkpoint {job.checkpoint} failed: {error}") from error
    return Migration(
        start=start, origin=end.origin, former=former, loses_state=end.loses_state, repeats=end.repeats
    )


def _of_topics(positions: Positions, job: Job) -> dict[TopicPartition, int]:
    return {key: offset for key, offset in positions.items() if key.topic in job.topics}
