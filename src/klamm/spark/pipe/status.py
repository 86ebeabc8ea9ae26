"""How a job stands, whether it runs or not: what it has done, what there is to read, how old that is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from klamm.client.config import CONSUMER
from klamm.client.consumer.consumer import Consumer
from klamm.protocol.types import TopicPartition
from klamm.spark.options.options import SourceOptions, for_client
from klamm.spark.pipe.checkpoints import Checkpoint, read_checkpoint
from klamm.spark.pipe.job import Job
from klamm.spark.pipe.notes import JobNotes, read_notes
from klamm.spark.pipe.record import read_record
from klamm.spark.pipe.replacing import whole_checkpoint
from klamm.spark.pipe.survey import options_of
from klamm.spark.read.lookup import ClusterLookup
from klamm.spark.read.positions import LATEST, Positions

_MOST_LOOKS: Final = 50  # partitions whose oldest unread record is looked at
_FIRST_RECORD_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """None is what is not known."""

    notes: JobNotes | None
    checkpoint: Checkpoint | None
    lag: Mapping[TopicPartition, int | None]
    oldest_unread_ms: int | None  # the timestamp of the oldest record found that the job has not read
    is_oldest_known: bool

    @property
    def uncounted(self) -> int:
        """Batches that have ended after the last note: the run was killed before it noted them."""
        if self.notes is None or self.checkpoint is None:
            return 0
        ended = self.checkpoint.batch_id - (not self.checkpoint.is_done)
        return max(0, ended - (-1 if self.notes.last_batch is None else self.notes.last_batch))


def status_of(job: Job, *, timeout_s: float) -> JobStatus:
    """Ask the checkpoint and the cluster; changes nothing. Raises KlammError, ConfigError."""
    job = replace(job, checkpoint=whole_checkpoint(job.checkpoint))
    source, _ = options_of(job, timeout_s)
    checkpoint = read_checkpoint(job.checkpoint)
    record = read_record(job.checkpoint)
    position: Positions = {}
    if checkpoint is not None:
        position = checkpoint.next_offsets
    elif record is not None and record.start is not None:
        position = record.start
    lookup = ClusterLookup(source)
    try:
        topics = lookup.topics()
        ends = lookup.offsets(dict.fromkeys(topics.partitions, LATEST))
    finally:
        lookup.close()
    lag = {key: max(0, end - position[key]) if key in position else None for key, end in sorted(ends.items())}
    behind = [key for key, count in lag.items() if count]
    times = _first_times(source, {key: position[key] for key in behind[:_MOST_LOOKS]})
    is_known = len(times) == len(behind) and None not in lag.values()
    return JobStatus(
        notes=read_notes(job.checkpoint),
        checkpoint=checkpoint,
        lag=lag,
        oldest_unread_ms=min(times.values(), default=None),
        is_oldest_known=is_known,
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
