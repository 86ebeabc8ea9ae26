"""What every LogStore and its logs must do; an engine's tests inherit `LogContract` and make their stores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from klamm.protocol.errors import ErrorCode
from klamm.records.batch import parse_header
from klamm.storage.log import (
    EngineLog,
    LogError,
)
from klamm.storage.topic_config import TopicConfig
from unit.storage.engine_contract import A
from unit.storage.history_contract import HistoryContract
from unit.storage.log_samples import (
    T,
    a_batch,
    append,
    headers,
    read_all,
    sync,
)
from unit.storage.producer_contract import ProducerContract
from unit.storage.slice_contract import SliceContract


class LogContract(ProducerContract, HistoryContract, SliceContract):
    """All that an engine promises; here what it does with offsets, bytes and flushes."""

    # -- offsets and bytes

    def test_a_new_log_is_empty(self, log: EngineLog) -> None:
        assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, 0, 0)
        assert log.last_stable_offset == 0
        assert log.size_bytes == 0
        assert not log.is_dirty
        assert log.start_sync() is None
        assert log.read(0, until_offset=0, max_bytes=100, at_least_one=True) == b""

    def test_batches_get_the_next_offsets_and_the_leader_epoch_and_are_otherwise_untouched(
        self, open_log: Callable[..., EngineLog]
    ) -> None:
        log = open_log(leader_epoch=7)
        sent = [a_batch(3), a_batch(2), a_batch(4)]
        results = [append(log, batch) for batch in sent]
        assert [(r.base_offset, r.last_offset, r.is_duplicate) for r in results] == [
            (0, 2, False),
            (3, 4, False),
            (5, 8, False),
        ]
        sync(log)
        stored = read_all(log)
        assert [header.base_offset for header in headers(stored)] == [0, 3, 5]
        assert {header.leader_epoch for header in headers(stored)} == {7}
        assert [batch[16:] for batch in stored] == [batch[16:] for batch in sent]
        assert log.size_bytes == sum(map(len, sent))

    def test_batches_of_the_broker_itself_are_appended_as_any_other(
        self, open_log: Callable[..., EngineLog]
    ) -> None:
        log = open_log(TopicConfig(segment_bytes=3000, index_interval_bytes=200), leader_epoch=7)
        sent: list[bytes] = []
        for number in range(1, 60):
            sent.append(a_batch(number % 4 + 1, timestamps_ms=[T + number] * (number % 4 + 1)))
            assert log.append_own(sent[-1], number) == log.log_end_offset - (number % 4 + 1)
            if number % 7 == 0:
                append(log, a_batch(1))
                sent.append(a_batch(1))
            if number % 5 == 0:
                sync(log)
        sync(log)
        assert log.high_watermark == log.log_end_offset
        stored = read_all(log)
        assert [batch[16:] for batch in stored] == [batch[16:] for batch in sent]
        assert {header.leader_epoch for header in headers(stored)} == {7}
        for header in headers(stored):
            found = log.read(
                header.last_offset, until_offset=log.high_watermark, max_bytes=1, at_least_one=True
            )
            assert parse_header(found).base_offset == header.base_offset
        assert log.offset_for_max_timestamp().timestamp_ms == T + 59

    @pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
    def test_any_buffer_will_do_and_is_left_alone(self, log: EngineLog, buffer: type) -> None:
        batch = a_batch(2)
        given = buffer(batch)
        append(log, given)
        assert bytes(given) == batch

    @pytest.mark.parametrize("max_bytes", [1, 99, 100, 250, 10_000])
    def test_reading_in_steps_of_any_size_gives_each_batch_once(
        self, open_log: Callable[..., EngineLog], max_bytes: int
    ) -> None:
        log = open_log(TopicConfig(segment_bytes=1500, index_interval_bytes=200))
        for count in range(1, 30):
            append(log, a_batch(count % 4 + 1))
        sync(log)
        whole = read_all(log)
        assert read_all(log, max_bytes=max_bytes) == whole
        assert len(whole) == 29

    def test_a_read_inside_a_batch_gives_that_whole_batch(self, log: EngineLog) -> None:
        append(log, a_batch(5))
        append(log, a_batch(5))
        sync(log)
        data = log.read(7, until_offset=10, max_bytes=10_000, at_least_one=False)
        assert parse_header(data).base_offset == 5

    def test_a_read_gives_whole_batches_that_fit_unless_one_must_come(self, log: EngineLog) -> None:
        batch = a_batch()
        for _ in range(3):
            append(log, batch)
        sync(log)
        size = len(batch)

        def read(max_bytes: int, *, at_least_one: bool) -> int:
            return len(log.read(0, until_offset=3, max_bytes=max_bytes, at_least_one=at_least_one))

        assert read(size - 1, at_least_one=False) == 0
        assert read(size - 1, at_least_one=True) == size
        assert read(2 * size + 5, at_least_one=False) == 2 * size
        assert read(0, at_least_one=True) == size
        assert read(-1, at_least_one=False) == 0

    def test_nothing_at_or_above_the_bound_is_read(self, log: EngineLog) -> None:
        for _ in range(4):
            append(log, a_batch(10))
        for until, expected in [(0, []), (9, []), (10, [0]), (15, [0]), (20, [0, 10]), (99, [0, 10, 20, 30])]:
            data = log.read(0, until_offset=until, max_bytes=10_000, at_least_one=True)
            assert [header.base_offset for header in headers([data])] == expected, until

    @pytest.mark.parametrize("offset", [-1, 1, 3, 11])
    def test_offsets_outside_the_log_are_out_of_range(self, log: EngineLog, offset: int) -> None:
        for _ in range(10):
            append(log)
        sync(log)
        log.delete_records(4)
        with pytest.raises(LogError) as refused:
            log.read(offset, until_offset=10, max_bytes=100, at_least_one=True)
        assert refused.value.error_code is ErrorCode.offset_out_of_range
        assert log.read(10, until_offset=10, max_bytes=100, at_least_one=True) == b""

    def test_readable_bytes_tells_what_a_read_would_give(self, open_log: Callable[..., EngineLog]) -> None:
        log = open_log(TopicConfig(segment_bytes=1024))
        for _ in range(30):
            append(log)
        sync(log)
        for offset in range(31):
            data = log.read(offset, until_offset=28, max_bytes=10_000, at_least_one=True)
            assert log.readable_bytes(offset, 28, 10_000) == len(data)
        assert log.readable_bytes(0, 28, 10) == 10

    def test_rolling_puts_new_batches_into_a_new_segment(self, open_log: Callable[..., EngineLog]) -> None:
        log = open_log(TopicConfig(segment_bytes=1024))
        while log.in_active_segment(0):
            append(log)
        sync(log)
        last = log.log_end_offset - 1
        assert log.in_active_segment(last)
        assert not log.in_active_segment(last - 1)
        data = log.read(0, until_offset=log.high_watermark, max_bytes=10_000, at_least_one=True)
        assert headers([data])[-1].last_offset == last - 1, "one segment at a time"

    def test_a_batch_larger_than_a_segment_is_refused(self, open_log: Callable[..., EngineLog]) -> None:
        log = open_log(TopicConfig(segment_bytes=1024))
        with pytest.raises(LogError) as refused:
            append(log, a_batch(value=bytes(2000)))
        assert refused.value.error_code is ErrorCode.record_list_too_large
        assert log.log_end_offset == 0

    @pytest.mark.parametrize("cut", [0, 16, 60, -1])
    def test_bytes_that_are_no_batch_are_refused(self, log: EngineLog, cut: int) -> None:
        with pytest.raises(LogError) as refused:
            append(log, a_batch()[:cut])
        assert refused.value.error_code is ErrorCode.corrupt_message

    # -- durability

    def test_the_high_watermark_moves_with_the_disk_or_with_the_append(self, log: EngineLog) -> None:
        moves: list[tuple[int, int]] = []
        log.on_change = lambda: moves.append((log.high_watermark, log.last_stable_offset))
        append(log, a_batch(3))
        assert log.is_dirty
        assert log.high_watermark == (0 if self.flush_on_commit else 3)
        first = log.start_sync()
        append(log, a_batch(2))
        assert first is not None
        assert first.end_offset == 3
        first.run()
        log.finish_sync(first)
        assert log.high_watermark == (3 if self.flush_on_commit else 5)
        assert log.is_dirty, "the second batch came after the flush began"
        sync(log)
        assert log.high_watermark == 5
        assert log.start_sync() is None, "all is on disk"
        assert moves == [(3, 3), (5, 5)]

    def test_a_failed_flush_cuts_back_to_what_is_on_disk(self, open_log: Callable[..., EngineLog]) -> None:
        log = open_log(TopicConfig(segment_bytes=1024))
        for sequence in range(5):
            append(log, a_batch(producer_id=A, producer_epoch=0, sequence=sequence))
        sync(log)
        ticket = None
        for sequence in range(5, 40):
            append(log, a_batch(producer_id=A, producer_epoch=0, sequence=sequence))
            ticket = ticket or log.start_sync()
        assert ticket is not None
        log.fail_sync(ticket)
        assert log.log_end_offset == log.high_watermark == 5
        assert len(read_all(log)) == 5
        # The producer's memory went back too: its next sequence is the one after the last that stayed.
        append(log, a_batch(producer_id=A, producer_epoch=0, sequence=5))
        sync(log)
        assert log.high_watermark == 6

    def test_what_was_sent_behind_a_batch_that_a_failed_flush_took_does_not_take_its_place(
        self, open_log: Callable[..., EngineLog]
    ) -> None:
        log = open_log(TopicConfig())
        append(log, a_batch(3, producer_id=A, producer_epoch=0, sequence=0))
        ticket = log.start_sync()
        assert ticket is not None
        log.fail_sync(ticket)
        # Nothing is left of the producer, which is no reason to begin in the middle.
        with pytest.raises(LogError) as refused:
            append(log, a_batch(producer_id=A, producer_epoch=0, sequence=3))
        assert refused.value.error_code is ErrorCode.out_of_order_sequence_number
        assert append(log, a_batch(3, producer_id=A, producer_epoch=0, sequence=0)).base_offset == 0
        assert append(log, a_batch(producer_id=A, producer_epoch=0, sequence=3)).base_offset == 3

    def test_a_flush_that_began_before_a_cut_means_nothing_after_it(self, log: EngineLog) -> None:
        append(log, a_batch(5))
        sync(log)
        append(log, a_batch(5))
        ticket = log.start_sync()
        assert ticket is not None
        log.truncate(5)
        append(log, a_batch(5))
        ticket.run()
        log.finish_sync(ticket)
        assert log.is_dirty
        log.fail_sync(ticket)
        assert log.log_end_offset == 10

    def test_a_flush_that_runs_later_keeps_files_that_the_log_has_closed_meanwhile(
        self, log: EngineLog
    ) -> None:
        append(log, a_batch(5))
        ticket = log.start_sync()
        assert ticket is not None
        ticket.keep_open()
        log.close()
        ticket.run()

    def test_a_flush_is_due_at_once_or_by_the_topics_own_rules(
        self, open_log: Callable[..., EngineLog]
    ) -> None:
        log = open_log(TopicConfig(flush_messages=3, segment_bytes=1024))
        assert not log.sync_is_due(0)
        append(log)
        assert log.sync_is_due(0) is self.flush_on_commit
        append(log)
        append(log)
        assert log.sync_is_due(0)
        sync(log)
        assert not log.sync_is_due(0)
        while log.in_active_segment(0):
            append(log)
        assert log.sync_is_due(0), "a roll asks for a flush"
        sync(log)
        log.config = replace(log.config, flush_messages=1000, flush_ms=50)
        append(log)
        assert log.sync_is_due(10) is self.flush_on_commit
        assert log.sync_is_due(60)
