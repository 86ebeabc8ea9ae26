"""A machine for a log to live on, and what was promised to its clients."""

from __future__ import annotations

from random import Random

from klamm.clock import ManualClock
from klamm.storage.engines.segments import SegmentStore
from klamm.storage.engines.segments.log import SegmentLog
from klamm.storage.engines.simulated_disk import SimulatedFiles
from klamm.storage.topic_config import TopicConfig
from unit.storage.log_samples import TOPIC_ID, T, a_batch, append, loaded, read_all, sync

CONFIG = TopicConfig(segment_bytes=1024, index_interval_bytes=200)
A = 4001


class World:
    """A machine whose power can go, and what was promised to its clients."""

    def __init__(self, seed: int, *, flush_on_commit: bool = True) -> None:
        self.clock = ManualClock(timestamp_ms=T)
        self.files = SimulatedFiles(Random(seed), self.clock)
        self.flush_on_commit = flush_on_commit
        self.epoch = -1
        self.appended: list[bytes] = []  # from offset 0 on, each of one record
        self.durable_end = 0
        self.start_promised = 0

    def start(self) -> SegmentLog:
        self.store = SegmentStore(
            "/data",
            cluster_id="c",
            node_id=1,
            clock=self.clock,
            flush_on_commit=self.flush_on_commit,
            files=self.files,
        )
        self.epoch += 1
        log = self.store.open("t", TOPIC_ID, 0, leader_epoch=self.epoch, config=CONFIG)
        assert isinstance(log, SegmentLog)
        return log

    def run(self, log: SegmentLog) -> None:
        """A busy day: batches, flushes, rolls, a transaction, deleted records, a checkpoint, a stop."""
        for n in range(36):
            number = len(self.appended)
            batch = a_batch(
                timestamps_ms=[T + number],
                value=b"%d" % number + bytes(range(256)) * (n % 3),
                producer_id=A,
                producer_epoch=0,
                sequence=number,
            )
            self.appended.append(batch[16:])  # before the call: a crash inside it may keep the batch
            append(log, batch, write_later=n % 4 > 0)
            if n % 5 == 4:
                sync(log)
                self.durable_end = log.log_end_offset
            if n == 17:
                start = log.delete_records(7)
                self.store.start_saving_log_starts()()
                self.start_promised = start
                loaded(lambda: log.delete_old_segments(0, T))
            if n == 25:
                self.store.start_checkpoint()()
        self.store.close()
        self.durable_end = len(self.appended)

    def check(self, log: SegmentLog) -> None:
        """What is left is a beginning of what was appended, and holds all that was promised."""
        stored = [batch[16:] for batch in read_all(log, until_offset=log.log_end_offset)]
        start = log.segments[0].base_offset
        assert log.log_end_offset >= self.durable_end
        assert max(start, self.start_promised) <= log.log_start_offset <= 7
        first = log.log_start_offset
        assert stored == self.appended[first : first + len(stored)]
        assert first + len(stored) == log.log_end_offset
        assert log.high_watermark == log.log_end_offset
        for offset in range(first, log.log_end_offset):
            assert log.offset_for_timestamp(T + offset, log.log_end_offset).offset == offset
        if log.log_end_offset > first:
            assert log.offset_for_max_timestamp().offset == log.log_end_offset - 1
            (producer,) = log.producers()
            assert producer.last_sequence == log.log_end_offset - 1
