"""New checkpoints that go on where another one stopped: of this job, or of Spark's own Kafka connector."""

from __future__ import annotations

from dataclasses import dataclass, replace

from klamm.errors import KlammError
from klamm.protocol.types import TopicPartition
from klamm.spark.options.options import SourceOptions, sink_options, source_options
from klamm.spark.pipe.checkpoints import Checkpoint, CheckpointError, read_checkpoint, read_entry
from klamm.spark.pipe.ends import reading, writing
from klamm.spark.pipe.folders import files_in, has_folder, move_aside
from klamm.spark.pipe.job import Job
from klamm.spark.pipe.record import JobRecord, RecordError, read_record, record_of, with_secrets, write_record
from klamm.spark.read.lookup import ClusterLookup
from klamm.spark.read.positions import Positions, from_json
from klamm.spark.write.decisions import is_decided
from klamm.spark.write.writers import protocol_of


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


def migrate(job: Job, *, timeout_s: float) -> Migration:
    """Give the job a new checkpoint that starts where the old one stopped; state is not taken along.

    Ends what an earlier run has left open: none may be active. Raises KlammError, ConfigError.
    """
    cluster_id, committed = _on_cluster(job, timeout_s)
    record = _old_record(job.checkpoint)
    try:
        checkpoint = read_checkpoint(job.checkpoint)
    except CheckpointError:
        checkpoint = None  # what the group has committed is not damaged
    is_here = record is None or record.cluster_id in (None, cluster_id)
    if record is not None and checkpoint is None and record.start is not None and is_here:
        raise CheckpointError(
            f"checkpoint {job.checkpoint} has no batch yet, and starts where another one stopped: run the job"
        )
    if checkpoint is not None and is_here:
        end = _stopped(_as_it_was(job, record), checkpoint)
    elif committed:
        end = _End(
            start=committed, dead_start=None, origin=f"the offsets that group {job.name} has committed"
        )
    else:
        raise CheckpointError(
            f"there is no checkpoint {job.checkpoint} to go on from, and group {job.name} has no offsets"
        )
    return _begun(job, end, cluster_id)


def adopt(job: Job, origin: str, *, timeout_s: float) -> Migration:
    """Give the job a checkpoint that starts where a query of Spark's Kafka connector stopped.

    The other checkpoint stays as it is. Raises KlammError, ConfigError.
    """
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
    cluster_id, _ = _on_cluster(job, timeout_s)
    end = _End(
        start=checkpoint.next_offsets,
        dead_start=None,
        origin=f"batch {checkpoint.batch_id} of {origin}",
        loses_state=checkpoint.has_state,
        repeats=_difference(checkpoint.next_offsets, checkpoint.end_offsets),
    )
    return _begun(job, end, cluster_id)


def _on_cluster(job: Job, timeout_s: float) -> tuple[str, Positions]:
    """The id of the cluster, and what the group has committed there. Raises KlammError."""
    lookup = ClusterLookup(_impatient(job, timeout_s))
    try:
        cluster_id = lookup.admin.describe_cluster().cluster_id
        partitions = lookup.topics().partitions
        return cluster_id, dict(lookup.committed(job.name, partitions)) if partitions else {}
    finally:
        lookup.close()


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


def _stopped(was: Job, checkpoint: Checkpoint) -> _End:
    """Where a checkpoint's query stopped: its last batch has ended, was committed, or is run again."""
    done, repeats = checkpoint.is_done, 0
    if was.is_exactly_once:
        options = sink_options(writing(was))
        # Fences a run that is still active, and ends what a crash has left open; then the decision stands.
        planned = protocol_of(options).plan(options)
        if getattr(planned, "lost", ()):
            raise CheckpointError(
                f"rows of batch {checkpoint.batch_id} are missing, which was decided: run the job as it was, "
                "to have them written"
            )
        done = done or is_decided(planned.decisions, checkpoint.key)
    elif not done:
        repeats = _difference(checkpoint.next_offsets, checkpoint.end_offsets)
    batch_id = checkpoint.batch_id if done else checkpoint.batch_id - 1
    origin = (
        f"batch {batch_id} of checkpoint {was.checkpoint}"
        if batch_id >= 0
        else "the start of its first batch"
    )
    start, dead = checkpoint.end_offsets if done else checkpoint.next_offsets, None
    if was.dead_letters is not None and checkpoint.source_count == 2 and batch_id >= 0:
        rows, letters = read_entry(was.checkpoint, batch_id).sources
        start, dead = from_json(rows), from_json(letters)
    return _End(
        start=start, dead_start=dead, origin=origin, loses_state=checkpoint.has_state, repeats=repeats
    )


def _difference(start: Positions, end: Positions) -> int:
    return sum(max(0, offset - start.get(key, offset)) for key, offset in end.items())


def _begun(job: Job, end: _End, cluster_id: str) -> Migration:
    """Put the old checkpoint aside, and the new one in its place."""
    start = _of_topics(end.start, job)
    former = None
    if has_folder(job.checkpoint) and files_in(job.checkpoint):
        former = move_aside(job.checkpoint)
    record = replace(record_of(job, cluster_id=cluster_id), start=start)
    if end.dead_start is not None:
        record = replace(record, dead_start=_of_topics(end.dead_start, job))
    try:
        write_record(job.checkpoint, record)
    except OSError as error:
        where = f"; the old checkpoint is {former}" if former else ""
        raise KlammError(f"writing checkpoint {job.checkpoint} failed: {error}{where}") from error
    return Migration(
        start=start, origin=end.origin, former=former, loses_state=end.loses_state, repeats=end.repeats
    )


def _of_topics(positions: Positions, job: Job) -> dict[TopicPartition, int]:
    return {key: offset for key, offset in positions.items() if key.topic in job.topics}
