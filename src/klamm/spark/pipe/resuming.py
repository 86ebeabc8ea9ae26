"""What a run finds before its query starts: the cluster that it reads, and where it goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from klamm.protocol.types import TopicPartition
from klamm.spark.options.options import source_options
from klamm.spark.pipe.checkpoints import Checkpoint, CheckpointError, read_checkpoint
from klamm.spark.pipe.ends import reading
from klamm.spark.pipe.failures import NEEDS_CHECKPOINT, JobFailedError
from klamm.spark.pipe.fitting import ADVICE, JobStanding
from klamm.spark.pipe.job import Job
from klamm.spark.pipe.record import JobRecord, RecordError, read_record, write_record
from klamm.spark.read.lookup import ClusterLookup
from klamm.spark.read.positions import EARLIEST, Positions, to_json


class ReadCluster:
    """The cluster that a job reads, asked as rarely as can be."""

    def __init__(self, job: Job) -> None:
        self._job = job
        options = source_options(reading(job), is_streaming=True)
        lookup = ClusterLookup(options)
        try:
            self.cluster_id: str = lookup.admin.describe_cluster().cluster_id
            self._partitions = lookup.topics().partitions
            self._firsts = lookup.offsets(dict.fromkeys(self._partitions, EARLIEST))
        finally:
            lookup.close()

    def resumed(self) -> Job:
        """The job with the start that its checkpoint names, if its first batch has not been planned yet."""
        record = _start_of(self._job)
        if record is None or record.start is None:
            return self._job
        dead = record.dead_start if record.dead_start is not None else record.start
        return replace(
            self._job,
            start=self._text(record.start),
            dead_start=self._text(dead) if self._job.dead_letters else None,
        )

    def _text(self, start: Positions) -> str:
        """Offsets of every partition there is: new ones from the first record."""
        return json.dumps(to_json({key: start.get(key, EARLIEST) for key in self._partitions}))

    def firsts(self, checkpoint: Checkpoint | None) -> Mapping[TopicPartition, int]:
        """The first offsets of all partitions, for topics that are new to the checkpoint."""
        return {} if checkpoint is None else self._firsts


def _start_of(job: Job) -> JobRecord | None:
    try:
        return read_record(job.checkpoint) if read_checkpoint(job.checkpoint) is None else None
    except (RecordError, CheckpointError) as error:
        raise JobFailedError(f"{error}; {ADVICE}", NEEDS_CHECKPOINT) from error


def keep_record(job: Job, found: JobStanding, now: JobRecord) -> None:
    """Note what the query runs with, for the next run to be compared with."""
    before = found.record
    if before is not None:
        now = replace(now, start=before.start, dead_start=before.dead_start)
    if now != before:
        write_record(job.checkpoint, now)
