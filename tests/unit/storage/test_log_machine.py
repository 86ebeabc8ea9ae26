"""Any order of appends, flushes, cuts, deletions, stops and crashes: a log against a plain list."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from klamm.clock import ManualClock
from klamm.records.batch import parse_header
from klamm.records.markers import ControlType, decode_marker
from klamm.storage.durability import SyncTicket
from klamm.storage.engines.segments import SegmentStore
from klamm.storage.engines.segments.log import SegmentLog
from klamm.storage.engines.simulated_disk import FailingOperation, SimulatedFiles
from klamm.storage.log import AppendResult
from klamm.storage.producer_state import ProducerState
from klamm.storage.topic_config import TopicConfig
from unit.storage.log_samples import (
    TOPIC_ID,
    T,
    a_batch,
    append,
    append_marker,
    headers,
    loaded,
    read_all,
    repair,
)

CONFIG = TopicConfig(segment_bytes=1500, index_interval_bytes=300, file_delete_delay_ms=1000)
PRODUCERS = st.sampled_from([1, 2, 3])


class Stored(NamedTuple):
    """A batch of the model."""

    base_offset: int
    last_offset: int
    batch: bytes


class LogMachine(RuleBasedStateMachine):
    """What a log does, and what a list of batches says it should have done."""

    def __init__(self) -> None:
        super().__init__()
        self.model: list[Stored] = []
        self.durable_end = 0
        self.written_end = 0  # survives the end of the process
        self.start_offset = 0
        self.leader_epoch = -1
        self.open_transactions: set[int] = set()
        self.producers = ProducerState()
        self.running: SyncTicket | None = None

    @initialize(seed=st.integers(0, 2**32), flush_on_commit=st.booleans())
    def begin(self, seed: int, flush_on_commit: bool) -> None:
        self.clock = ManualClock(timestamp_ms=T)
        self.files = SimulatedFiles(Random(seed), self.clock)
        self.flush_on_commit = flush_on_commit
        self.start()

    def start(self) -> None:
        self.running = None
        self.store = SegmentStore(
            "/data",
            cluster_id="c",
            node_id=1,
            clock=self.clock,
            flush_on_commit=self.flush_on_commit,
            files=self.files,
            producer_id_expiration_ms=10**15,
        )
        self.leader_epoch += 1
        log = self.store.open("t", TOPIC_ID, 0, leader_epoch=self.leader_epoch, config=CONFIG)
        assert isinstance(log, SegmentLog)
        self.log = log

    # -- moves

    def wrote(self, result: AppendResult, batch: bytes, write_later: bool) -> None:
        assert not result.is_duplicate
        assert result.base_offset == self.end_offset
        self.model.append(Stored(result.base_offset, result.last_offset, batch))
        if not write_later or not self.flush_on_commit:
            self.written_end = self.end_offset

    @property
    def end_offset(self) -> int:
        return max(self.model[-1].last_offset + 1 if self.model else 0, self.start_offset)

    @rule(
        count=st.integers(1, 4),
        size=st.integers(0, 300),
        after_ms=st.integers(-50, 50),
        write_later=st.booleans(),
    )
    def append_plain(self, count: int, size: int, after_ms: int, write_later: bool) -> None:
        times = [T + len(self.model) + after_ms + n for n in range(count)]
        batch = a_batch(timestamps_ms=times, value=bytes(size))
        self.wrote(append(self.log, batch, write_later=write_later), batch, write_later)

    @rule(producer=PRODUCERS, count=st.integers(1, 3), transactional=st.booleans(), write_later=st.booleans())
    def append_with_sequence(self, producer: int, count: int, transactional: bool, write_later: bool) -> None:
        # A crash may take the memory of deleted batches: the log tells what it expects.
        expected = {status.producer_id: status.last_sequence + 1 for status in self.log.producers()}
        batch = a_batch(
            count,
            producer_id=producer,
            producer_epoch=0,
            sequence=expected.get(producer, 0),
            transactional=transactional or producer in self.open_transactions,
        )
        result = append(self.log, batch, write_later=write_later)
        self.wrote(result, batch, write_later)
        again = append(self.log, batch)
        assert again.is_duplicate
        assert again.base_offset == result.base_offset
        self.forget_and_replay()

    @rule(producer=PRODUCERS, kind=st.sampled_from(ControlType))
    def end_transaction(self, producer: int, kind: ControlType) -> None:
        before = self.end_offset
        append_marker(self.log, kind, producer_id=producer)
        data = self.log.read(
            before, until_offset=self.log.log_end_offset, max_bytes=1 << 20, at_least_one=True
        )
        self.model.append(Stored(before, before, data))
        self.forget_and_replay()

    @rule()
    def flush(self) -> None:
        if (ticket := self.log.start_sync()) is not None:
            ticket.run()
            self.log.finish_sync(ticket)
        self.durable_end = self.end_offset

    @rule()
    def begin_flush(self) -> None:
        """A flush that other moves will happen under."""
        if self.running is None and (ticket := self.log.start_sync()) is not None:
            ticket.keep_open()
            self.running = ticket

    @rule(is_run_at_once=st.booleans())
    def end_flush(self, is_run_at_once: bool) -> None:
        if self.running is None:
            return
        ticket, self.running = self.running, None
        ticket.run()
        if not is_run_at_once:
            self.append_plain(1, 200, 0, False)
        self.log.finish_sync(ticket)
        self.durable_end = max(self.durable_end, self.log.recovery_point)

    @rule()
    def flush_fails(self) -> None:
        repair(self.log)  # which ends the log if it fails
        if (ticket := self.log.start_sync()) is None:
            return
        self.files.faults = [FailingOperation("sync")]
        try:
            ticket.run()
        except OSError:
            self.log.fail_sync(ticket)
        self.files.faults = []
        repair(self.log)
        self.keep_below(self.log.recovery_point)
        assert self.end_offset == self.log.log_end_offset

    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        to_offset = data.draw(st.integers(self.start_offset, self.end_offset), label="to_offset")
        self.log.truncate(to_offset)
        repair(self.log)  # until then a crash may undo it
        self.keep_below(to_offset)
        self.durable_end = min(self.durable_end, self.end_offset)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        before = data.draw(st.integers(0, self.log.last_stable_offset), label="before")
        assert self.log.delete_records(before) == max(before, self.start_offset)
        self.store.start_saving_log_starts()()
        self.start_offset = max(before, self.start_offset)

    @rule()
    def retention_runs(self) -> None:
        loaded(lambda: self.log.delete_old_segments(self.clock.now_ms(), self.clock.timestamp_ms()))
        self.clock.advance(700)
        if (work := self.store.start_housekeeping(self.clock.now_ms())) is not None:
            work()

    @rule()
    def checkpoint(self) -> None:
        self.store.start_checkpoint()()

    @rule()
    def stop_and_start(self) -> None:
        self.store.close()
        self.start()
        self.durable_end = self.end_offset
        assert self.log.log_end_offset == self.end_offset

    @rule()
    def kill_and_start(self) -> None:
        written_end = max(self.written_end, self.durable_end)
        self.files.kill()
        self.start()
        assert written_end <= self.log.log_end_offset <= self.end_offset
        self.keep_below(self.log.log_end_offset)
        assert self.log.log_end_offset == self.end_offset
        self.durable_end = self.end_offset

    @rule()
    def lose_power_and_start(self) -> None:
        self.files.crash()
        self.start()
        assert self.durable_end <= self.log.log_end_offset <= self.end_offset
        self.keep_below(self.log.log_end_offset)
        assert self.log.log_end_offset == self.end_offset
        self.durable_end = self.end_offset

    @precondition(lambda self: len(self.model) > 3)
    @rule()
    def load_twice(self) -> None:
        self.lose_power_and_start()
        before = (self.log.segments[0].base_offset, read_all(self.log), self.log.producers())
        self.kill_and_start()
        assert before == (self.log.segments[0].base_offset, read_all(self.log), self.log.producers())

    def keep_below(self, next_offset: int) -> None:
        """The log was cut: batches that reach to an offset or beyond are gone."""
        self.model = [stored for stored in self.model if stored.last_offset < next_offset]
        if not self.log.size_bytes:
            self.model = []  # a log that would end below its start begins anew there
        self.written_end = min(self.written_end, self.end_offset)
        self.forget_and_replay()

    def forget_and_replay(self) -> None:
        self.producers = ProducerState()
        for stored in self.model:
            header = parse_header(stored.batch)
            if header.producer_id >= 0:
                marker = decode_marker(stored.batch) if header.is_control else None
                self.producers.update(header, stored.base_offset, marker)
        self.open_transactions = {
            entry.producer_id for entry in self.producers if entry.txn_first_offset >= 0
        }

    # -- promises

    @invariant()
    def offsets_are_in_order(self) -> None:
        log = self.log
        assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark <= log.log_end_offset
        assert log.log_end_offset == self.end_offset
        assert log.log_start_offset == self.start_offset
        if self.flush_on_commit:
            assert log.high_watermark == log.recovery_point
        assert log.recovery_point <= self.end_offset

    @invariant()
    def every_batch_is_read_once_and_untouched(self) -> None:
        log = self.log
        expected = [stored for stored in self.model if stored.last_offset >= self.start_offset]
        stored = read_all(log, until_offset=log.log_end_offset)
        assert [batch[16:] for batch in stored] == [each.batch[16:] for each in expected]
        epochs = [header.leader_epoch for header in headers(stored)]
        assert epochs == sorted(epochs)
        for header in headers(stored):
            assert log.epochs.at(header.last_offset) == header.leader_epoch
        visible = [each for each in expected if each.last_offset < log.high_watermark]
        assert len(read_all(log, max_bytes=200)) == len(visible)
        stable = [each for each in expected if each.last_offset < log.last_stable_offset]
        assert len(read_all(log, until_offset=log.last_stable_offset, max_bytes=700)) == len(stable)

    @invariant()
    def producers_are_as_the_log_tells(self) -> None:
        self.forget_and_replay()
        found = {status.producer_id: status for status in self.log.producers()}
        for status in self.producers.statuses():
            entry = self.producers.get(status.producer_id)
            assert entry is not None
            # What is known only from deleted batches may be lost with their segments.
            if entry.batches and entry.summaries()[-1].last_offset >= self.start_offset:
                known = replace(found[status.producer_id], coordinator_epoch=status.coordinator_epoch)
                assert known == status

    @invariant()
    def index_entries_point_at_what_they_say(self) -> None:
        for segment in self.log.segments:
            batches = {batch.position: batch.header for batch in segment.batches()}
            segment.locate(segment.base_offset + 1)
            for last_offset, position in segment.offset_index.entries():
                assert batches[position].last_offset == last_offset
            times = segment.loaded_time_index().entries()
            assert times == sorted(set(times))
            ends = {header.last_offset: header for header in batches.values()}
            for timestamp_ms, offset in times:
                assert ends[offset].max_timestamp_ms == timestamp_ms

    @invariant()
    def aborted_transactions_are_known(self) -> None:
        found = self.log.aborted_transactions(self.start_offset, self.end_offset)
        replayed = ProducerState()
        expected = []
        for stored in self.model:
            header = parse_header(stored.batch)
            if header.producer_id < 0:
                continue
            marker = decode_marker(stored.batch) if header.is_control else None
            ended = replayed.update(header, stored.base_offset, marker)
            if ended is not None and ended.is_aborted and ended.last_offset >= self.start_offset:
                expected.append((ended.producer_id, ended.first_offset))
        assert [(each.producer_id, each.first_offset) for each in found] == expected


LogMachine.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestLogMachine = LogMachine.TestCase
