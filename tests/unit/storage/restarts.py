"""A folder of segment files that is stopped, killed and started again."""

from __future__ import annotations

from pathlib import Path

from klamm.clock import ManualClock
from klamm.storage.engines.segments import SegmentStore
from klamm.storage.engines.segments.files import Files
from klamm.storage.engines.segments.log import SegmentLog
from klamm.storage.log import EngineLog
from klamm.storage.topic_config import TopicConfig
from unit.storage.log_samples import (
    TOPIC_ID,
    HastyFiles,
    T,
    a_batch,
    append,
    read_all,
)

SMALL = TopicConfig(segment_bytes=1024, index_interval_bytes=200)
A = 4001


class Machine:
    """A folder, and the store that is open on it."""

    def __init__(self, directory: Path, *, flush_on_commit: bool = True, files: Files | None = None) -> None:
        self.directory = directory
        self.partition = directory / "t-0"
        self.clock = ManualClock(timestamp_ms=T)
        self.files = files or HastyFiles()
        self.flush_on_commit = flush_on_commit
        self.epoch = -1
        self.store = self.start()

    def start(self, *, cluster_id: str = "c", node_id: int = 1) -> SegmentStore:
        self.store = SegmentStore(
            str(self.directory),
            cluster_id=cluster_id,
            node_id=node_id,
            clock=self.clock,
            flush_on_commit=self.flush_on_commit,
            files=self.files,
        )
        return self.store

    def open(self, config: TopicConfig = SMALL) -> SegmentLog:
        self.epoch += 1
        log = self.store.open("t", TOPIC_ID, 0, leader_epoch=self.epoch, config=config)
        assert isinstance(log, SegmentLog)
        return log

    def kill(self) -> None:
        """As kill -9 does: what the process wrote is there, nothing was put in order."""
        self.files.close(self.store._lock)
        self.start()

    def stop(self) -> None:
        self.store.close()
        self.start()

    def paths(self, pattern: str) -> list[Path]:
        return sorted(self.partition.glob(pattern))


def fill(log: EngineLog, count: int = 40) -> None:
    """Batches of two records, with a producer and a transaction now and then."""
    for n in range(count):
        append(log, a_batch(2, producer_id=A, producer_epoch=0, sequence=2 * n))


def facts(log: SegmentLog) -> dict[str, object]:
    """All that readers and producers could ask of a log."""
    return {
        "offsets": (log.log_start_offset, log.log_end_offset, log.last_stable_offset),
        "batches": read_all(log),
        "producers": log.producers(),
        "aborted": log.aborted_transactions(0, log.log_end_offset),
        "times": [log.offset_for_timestamp(T + n, log.log_end_offset) for n in range(0, 50, 7)],
        "latest": log.offset_for_max_timestamp(),
        "reads": [
            log.read(offset, until_offset=log.log_end_offset, max_bytes=300, at_least_one=True)
            for offset in range(log.log_start_offset, log.log_end_offset)
        ],
    }
