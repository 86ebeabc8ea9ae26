"""How a job stands, whether it runs or not: what it has done, what there is to read, how old that is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from klamm.client.config import CONSUMER
from klamm.client.consumer.consumer import Consumer
from klamm.errors import KlammError
from klamm.protocol.types import TopicPartition
from klamm.spark.options.options import SourceOptions, for_client
from klamm.spark.pipe.checkpoints import Checkpoint, CheckpointError, read_checkpoint
from klamm.spark.pipe.job import Job
from klamm.spark.pipe.notes import JobNotes, read_notes
from klamm.spark.pipe.record import JobRecord, RecordError, read_record
from klamm.spark.pipe.replacing import whole_checkpoint
from klamm.spark.pipe.survey import lost_offsets, options_of
from klamm.spark.read.lookup import ClusterLookup
from klamm.spark.read.positions import EARLIEST, LATEST, Positions

_MOST_LOOKS: Final = 50  # partitions whose oldest unread record is looked at
_FIRST_RECORD_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """None is what is not known."""

    notes: JobNotes | None
    checkpoint: Checkpoint | None
    lag: Mapping[TopicPartition, int | None] | None
    oldest_unread_ms: int | None  # the timestamp of the oldest record found that the job has not read
    is_oldest_known: bool
    held_back: int = 0  # offsets behind transactions that are open: nobody reads them yet
    problems: tuple[str, ...] = ()  # why something is not known, or the job cannot go on

    @property
    def uncounted(self) -> int:
        """Batches that have ended after the last note: the run was killed before it noted them."""
        if self.notes is None or self.checkpoint is None:
            return 0
        ended = self.checkpoint.batch_id - (not self.checkpoint.is_done)
        return max(0, ended - (-1 if self.notes.last_batch is None else self.notes.last_batch))


def status_of(job: Job, *, timeout_s: float) -> JobStatus:
    """Ask the checkpoint and the cluster; changes nothing. Raises ConfigError.

    What one of them does not tell is not known, and a problem says why.
    """
    job = replace(job, checkpoint=whole_checkpoint(job.checkpoint))
    source, _ = options_of(job, timeout_s)
    checkpoint, record, problems = None, None, []
    try:
        checkpoint, record = read_checkpoint(job.checkpoint), read_record(job.checkpoint)
    except (CheckpointError, RecordError) as error:
        problems.append(str(error))
    status = JobStatus(
        notes=read_notes(job.checkpoint),
        checkpoint=checkpoint,
        lag=None,
        oldest_unread_ms=None,
        is_oldest_known=False,
        problems=tuple(problems),
    )
    position: Positions = {}
    if checkpoint is not None:
        position = checkpoint.next_offsets
    elif record is not None and record.start is not None:
        position = record.start
    lookup = ClusterLookup(source)
    try:
        return _with_lag(status, source, lookup, position, record)
    except KlammError as error:
        return replace(status, problems=(*problems, str(error)))
    finally:
        lookup.close()


def _with_lag(
    status: JobStatus,
    source: SourceOptions,
    lookup: ClusterLookup,
    position: Positions,
    record: JobRecord | None,
) -> JobStatus:
    cluster_id = lookup.admin.describe_cluster().cluster_id
    if record is not None and record.cluster_id not in (None, cluster_id):
        problem = f"the checkpoint is of cluster {record.cluster_id}, this is cluster {cluster_id}"
        return replace(status, problems=(*status.problems, problem))
    partitions = sorted(lookup.topics().partitions)
    firsts = lookup.offsets(dict.fromkeys(partitions, EARLIEST))
    ends = lookup.offsets(dict.fromkeys(partitions, LATEST))
    last = lookup.admin.list_offsets(dict.fromkeys(partitions, LATEST)).unwrap()
    if position:
        position = {key: position.get(key, firsts[key]) for key in partitions}  # a partition more
    lost = lost_offsets(position, firsts, ends)
    lag = {
        key: ends[key] - position[key] if firsts[key] <= position.get(key, -1) <= ends[key] else None
        for key in partitions
    }
    behind = [key for key, count in lag.items() if count]
    times = _first_times(source, {key: position[key] for key in behind[:_MOST_LOOKS]})
    return replace(
        status,
        lag=lag,
        oldest_unread_ms=min(times.values(), default=None),
        is_oldest_known=len(times) == len(behind) and None not in lag.values(),
        held_back=sum(max(0, last[key].offset - ends[key]) for key in partitions),
        problems=(*status.problems, *lost),
    )


def _first_times(source: SourceOptions, positions: Positions) -> dict[TopicPartition, int]:
    """The timestamp of the first record at each position; without those that nothing came of in time."""
    found: dict[TopicPartition, int] = {}
    if not positions:
        return found
    wanted = for_client(source.client, CONSUMER)
    settings = {**wanted, "auto.offset.reset": "earliest", "enable.auto.commit": "false"}
    for name in ("group.id", "default.api.timeout.ms"):  # the latter may be below the time of one request
        settings.pop(name, None)
    until = time.monotonic() + _FIRST_RECORD_S
    with Consumer(settings) as consumer:
        consumer.assign(positions)
        for partition, offset in positions.items():
            consumer.seek(partition, offset)
        while len(found) < len(positions) and (left := until - time.monotonic()) > 0:
            for partition, records in consumer.poll(left).by_partition().items():
                found.setdefault(partition, records[0].timestamp_ms)
                consumer.pause(partition)
    return found
