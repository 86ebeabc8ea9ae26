"""What every LogStore and its logs must do; an engine's tests inherit `LogContract` and make their stores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from klamm.clock import ManualClock
from klamm.protocol.errors import ErrorCode
from klamm.records.batch import parse_header
from klamm.records.compression import Codec
from klamm.records.markers import ControlType
from klamm.storage.log import (
    AbortedTransaction,
    AppendOrigin,
    EpochEnd,
    LogError,
    LogStore,
    PartitionLog,
    TimestampedOffset,
)
from klamm.storage.topic_config import TopicConfig
from unit.storage.log_samples import (
    TOPIC_ID,
    T,
    a_batch,
    append,
    append_marker,
    headers,
    read_all,
    sync,
)

MAX_SEQUENCE = 2_147_483_647
A, B = 4001, 4002  # producers


class LogContract:
    """Tests of any engine; it provides the fixture `store`, and says whether flushes move the watermark."""

    flush_on_commit = True

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock(timestamp_ms=T)

    @pytest.fixture
    def store(self, clock: ManualClock) -> LogStore:
        raise AssertionError("an engine's tests provide their store")

    @pytest.fixture
    def open_log(self, store: LogStore) -> Callable[..., PartitionLog]:
        def open_log(config: TopicConfig | None = None, *, leader_epoch: int = 0) -> PartitionLog:
            return store.open("t", TOPIC_ID, 0, leader_epoch=leader_epoch, config=config or TopicConfig())

        return open_log

    @pytest.fixture
    def log(self, open_log: Callable[..., PartitionLog]) -> PartitionLog:
        return open_log()

    # -- offsets and bytes

    def test_a_new_log_is_empty(self, log: PartitionLog) -> None:
        assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, 0, 0)
        assert log.last_stable_offset == 0
        assert log.size_bytes == 0
        assert not log.is_dirty
        assert log.start_sync() is None
        assert log.read(0, until_offset=0, max_bytes=100, at_least_one=True) == b""

    def test_batches_get_the_next_offsets_and_the_leader_epoch_and_are_otherwise_untouched(
        self, open_log: Callable[..., PartitionLog]
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

    @pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
    def test_any_buffer_will_do_and_is_left_alone(self, log: PartitionLog, buffer: type) -> None:
        batch = a_batch(2)
        given = buffer(batch)
        append(log, given)
        assert bytes(given) == batch

    @pytest.mark.parametrize("max_bytes", [1, 99, 100, 250, 10_000])
    def test_reading_in_steps_of_any_size_gives_each_batch_once(
        self, open_log: Callable[..., PartitionLog], max_bytes: int
    ) -> None:
        log = open_log(TopicConfig(segment_bytes=1500, index_interval_bytes=200))
        for count in range(1, 30):
            append(log, a_batch(count % 4 + 1))
        sync(log)
        whole = read_all(log)
        assert read_all(log, max_bytes=max_bytes) == whole
        assert len(whole) == 29

    def test_a_read_inside_a_batch_gives_that_whole_batch(self, log: PartitionLog) -> None:
        append(log, a_batch(5))
        append(log, a_batch(5))
        sync(log)
        data = log.read(7, until_offset=10, max_bytes=10_000, at_least_one=False)
        assert parse_header(data).base_offset == 5

    def test_a_read_gives_whole_batches_that_fit_unless_one_must_come(self, log: PartitionLog) -> None:
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

    def test_nothing_at_or_above_the_bound_is_read(self, log: PartitionLog) -> None:
        for _ in range(4):
            append(log, a_batch(10))
        for until, expected in [(0, []), (9, []), (10, [0]), (15, [0]), (20, [0, 10]), (99, [0, 10, 20, 30])]:
            data = log.read(0, until_offset=until, max_bytes=10_000, at_least_one=True)
            assert [header.base_offset for header in headers([data])] == expected, until

    @pytest.mark.parametrize("offset", [-1, 1, 3, 11])
    def test_offsets_outside_the_log_are_out_of_range(self, log: PartitionLog, offset: int) -> None:
        for _ in range(10):
            append(log)
        sync(log)
        log.delete_records(4)
        with pytest.raises(LogError) as refused:
            log.read(offset, until_offset=10, max_bytes=100, at_least_one=True)
        assert refused.value.error_code is ErrorCode.offset_out_of_range
        assert log.read(10, until_offset=10, max_bytes=100, at_least_one=True) == b""

    def test_readable_bytes_tells_what_a_read_would_give(self, open_log: Callable[..., PartitionLog]) -> None:
        log = open_log(TopicConfig(segment_bytes=1024))
        for _ in range(30):
            append(log)
        sync(log)
        for offset in range(31):
            data = log.read(offset, until_offset=28, max_bytes=10_000, at_least_one=True)
            assert log.readable_bytes(offset, 28, 10_000) == len(data)
        assert log.readable_bytes(0, 28, 10) == 10

    def test_rolling_puts_new_batches_into_a_new_segment(self, open_log: Callable[..., PartitionLog]) -> None:
        log = open_log(TopicConfig(segment_bytes=1024))
        while log.in_active_segment(0):
            append(log)
        sync(log)
        last = log.log_end_offset - 1
        assert log.in_active_segment(last)
        assert not log.in_active_segment(last - 1)
        data = log.read(0, until_offset=log.high_watermark, max_bytes=10_000, at_least_one=True)
        assert headers([data])[-1].last_offset == last - 1, "one segment at a time"

    def test_a_batch_larger_than_a_segment_is_refused(self, open_log: Callable[..., PartitionLog]) -> None:
        log = open_log(TopicConfig(segment_bytes=1024))
        with pytest.raises(LogError) as refused:
            append(log, a_batch(value=bytes(2000)))
        assert refused.value.error_code is ErrorCode.record_list_too_large
        assert log.log_end_offset == 0

    @pytest.mark.parametrize("cut", [0, 16, 60, -1])
    def test_bytes_that_are_no_batch_are_refused(self, log: PartitionLog, cut: int) -> None:
        with pytest.raises(LogError) as refused:
            append(log, a_batch()[:cut])
        assert refused.value.error_code is ErrorCode.corrupt_message

    # -- durability

    def test_the_high_watermark_moves_with_the_disk_or_with_the_append(self, log: PartitionLog) -> None:
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

    def test_a_failed_flush_cuts_back_to_what_is_on_disk(self, open_log: Callable[..., PartitionLog]) -> None:
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
        self, open_log: Callable[..., PartitionLog]
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

    def test_a_flush_that_began_before_a_cut_means_nothing_after_it(self, log: PartitionLog) -> None:
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
        self, log: PartitionLog
    ) -> None:
        append(log, a_batch(5))
        ticket = log.start_sync()
        assert ticket is not None
        ticket.keep_open()
        log.close()
        ticket.run()

    def test_a_flush_is_due_at_once_or_by_the_topics_own_rules(
        self, open_log: Callable[..., PartitionLog]
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

    # -- producers

    def test_sequences_go_on_and_a_repeat_is_found_without_being_written(self, log: PartitionLog) -> None:
        first = append(log, a_batch(3, producer_id=A, producer_epoch=0, sequence=0))
        second = append(log, a_batch(2, producer_id=A, producer_epoch=0, sequence=3))
        repeat = append(log, a_batch(2, producer_id=A, producer_epoch=0, sequence=3))
        assert (first.base_offset, second.base_offset) == (0, 3)
        assert repeat == second._replace(is_duplicate=True, log_append_time_ms=T + 1)
        assert log.log_end_offset == 5

    def test_five_batches_are_remembered_and_not_six(self, log: PartitionLog) -> None:
        batches = [a_batch(2, producer_id=A, producer_epoch=0, sequence=2 * n) for n in range(6)]
        for batch in batches[:5]:
            append(log, batch)
        assert [append(log, batch).base_offset for batch in batches[:5]] == [0, 2, 4, 6, 8]
        append(log, batches[5])
        with pytest.raises(LogError) as refused:
            append(log, batches[0])
        assert refused.value.error_code is ErrorCode.out_of_order_sequence_number
        assert append(log, batches[1]).is_duplicate

    @pytest.mark.parametrize(
        ("count", "sequence"),
        [(2, 0), (2, 1), (1, 2), (3, 1), (3, 4), (3, MAX_SEQUENCE)],
        ids=["start of it", "end of it", "its last", "overlap", "gap", "before"],
    )
    def test_what_is_neither_next_nor_an_exact_repeat_is_out_of_order(
        self, log: PartitionLog, count: int, sequence: int
    ) -> None:
        append(log, a_batch(3, producer_id=A, producer_epoch=0, sequence=0))
        with pytest.raises(LogError) as refused:
            append(log, a_batch(count, producer_id=A, producer_epoch=0, sequence=sequence))
        assert refused.value.error_code is ErrorCode.out_of_order_sequence_number
        assert log.log_end_offset == 3
        append(log, a_batch(1, producer_id=A, producer_epoch=0, sequence=3))

    def test_sequences_wrap_to_zero(self, log: PartitionLog) -> None:
        append(log, a_batch(1, producer_id=A, producer_epoch=0, sequence=MAX_SEQUENCE))
        with pytest.raises(LogError):
            append(log, a_batch(1, producer_id=A, producer_epoch=0, sequence=1))
        append(log, a_batch(1, producer_id=A, producer_epoch=0, sequence=0))

        across = a_batch(4, producer_id=B, producer_epoch=0, sequence=MAX_SEQUENCE - 1)
        written = append(log, across)
        assert append(log, across).base_offset == written.base_offset
        append(log, a_batch(1, producer_id=B, producer_epoch=0, sequence=2))

    def test_epochs_fence_the_older_and_begin_at_zero(self, log: PartitionLog) -> None:
        append(log, a_batch(1, producer_id=A, producer_epoch=3, sequence=0))
        for epoch, sequence, expected in [
            (2, 1, ErrorCode.invalid_producer_epoch),
            (4, 7, ErrorCode.out_of_order_sequence_number),
        ]:
            with pytest.raises(LogError) as refused:
                append(log, a_batch(1, producer_id=A, producer_epoch=epoch, sequence=sequence))
            assert refused.value.error_code is expected
        append(log, a_batch(1, producer_id=A, producer_epoch=4, sequence=0))
        with pytest.raises(LogError) as refused:
            append(log, a_batch(1, producer_id=A, producer_epoch=3, sequence=0))
        assert refused.value.error_code is ErrorCode.invalid_producer_epoch, "the window went with its epoch"

    def test_a_producer_never_seen_may_begin_anywhere(self, log: PartitionLog) -> None:
        assert append(log, a_batch(1, producer_id=A, producer_epoch=9, sequence=17)).base_offset == 0

    def test_equal_content_is_two_records(self, log: PartitionLog) -> None:
        assert [append(log, a_batch()).base_offset, append(log, a_batch()).base_offset] == [0, 1]

    def test_a_silent_producer_is_forgotten_but_not_within_a_transaction(self, log: PartitionLog) -> None:
        append(log, a_batch(1, producer_id=A, producer_epoch=0, sequence=0))
        append(log, a_batch(1, producer_id=B, producer_epoch=0, sequence=0, transactional=True))
        assert log.expire_producers(T + 999, 1000) == 0
        assert log.expire_producers(T + 1000, 1000) == 1
        assert [status.producer_id for status in log.producers()] == [B]
        append(log, a_batch(1, producer_id=A, producer_epoch=0, sequence=5))

    def test_coordinators_are_not_asked_for_sequences(self, log: PartitionLog) -> None:
        commit = a_batch(1, producer_id=A, producer_epoch=1, sequence=0, transactional=True)
        offsets = [append(log, commit, origin=AppendOrigin.COORDINATOR).base_offset for _ in range(3)]
        assert offsets == [0, 1, 2]
        stale = a_batch(1, producer_id=A, producer_epoch=0, sequence=0, transactional=True)
        with pytest.raises(LogError) as refused:
            append(log, stale, origin=AppendOrigin.COORDINATOR)
        assert refused.value.error_code is ErrorCode.invalid_producer_epoch

    def test_a_duplicate_tells_its_append_time_on_any_topic(self, log: PartitionLog) -> None:
        plain = append(log, a_batch(1, producer_id=A, producer_epoch=0, sequence=0))
        assert plain.log_append_time_ms == -1
        stamped = a_batch(1, producer_id=A, producer_epoch=0, sequence=1, append_time_ms=T + 77)
        assert append(log, stamped).log_append_time_ms == T + 77
        assert append(log, stamped).log_append_time_ms == T + 77

    # -- transactions

    def test_an_open_transaction_holds_the_stable_offset_until_its_marker_counts(
        self, log: PartitionLog
    ) -> None:
        append(log)
        append(log, a_batch(3, producer_id=A, producer_epoch=0, sequence=0, transactional=True))
        append(log)
        sync(log)
        assert (log.last_stable_offset, log.high_watermark) == (1, 5)
        append_marker(log, ControlType.COMMIT, producer_id=A)
        if self.flush_on_commit:
            assert log.last_stable_offset == 1, "a marker that a crash can take back decides nothing"
        sync(log)
        assert log.last_stable_offset == log.high_watermark == 6
        assert log.aborted_transactions(0, 6) == []

    def test_interleaved_transactions_hold_at_the_oldest_open_one(self, log: PartitionLog) -> None:
        append(log, a_batch(2, producer_id=A, producer_epoch=0, sequence=0, transactional=True))
        append(log, a_batch(2, producer_id=B, producer_epoch=0, sequence=0, transactional=True))
        append(log, a_batch(2, producer_id=A, producer_epoch=0, sequence=2, transactional=True))
        append_marker(log, ControlType.ABORT, producer_id=A)
        sync(log)
        assert log.last_stable_offset == 2
        append_marker(log, ControlType.COMMIT, producer_id=B)
        sync(log)
        assert log.last_stable_offset == 8
        assert log.aborted_transactions(0, 8) == [AbortedTransaction(A, 0)]
        assert log.aborted_transactions(5, 8) == [AbortedTransaction(A, 0)], "also from its middle"
        assert log.aborted_transactions(7, 8) == []

    def test_an_abort_in_a_later_segment_is_found_from_the_first(
        self, open_log: Callable[..., PartitionLog]
    ) -> None:
        log = open_log(TopicConfig(segment_bytes=1024))
        sequence = 0
        append(log, a_batch(1, producer_id=A, producer_epoch=0, sequence=0, transactional=True))
        while log.in_active_segment(0) or log.log_end_offset < 30:
            append(log)
            sequence += 1
        append_marker(log, ControlType.ABORT, producer_id=A)
        sync(log)
        assert log.aborted_transactions(0, log.last_stable_offset) == [AbortedTransaction(A, 0)]

    def test_inside_its_transaction_a_producer_sends_nothing_else(self, log: PartitionLog) -> None:
        append(log, a_batch(1, producer_id=A, producer_epoch=0, sequence=0, transactional=True))
        with pytest.raises(LogError) as refused:
            append(log, a_batch(1, producer_id=A, producer_epoch=0, sequence=1))
        assert refused.value.error_code is ErrorCode.invalid_txn_state

    def test_markers_fence_by_producer_and_coordinator_epoch(self, log: PartitionLog) -> None:
        append_marker(log, ControlType.ABORT, producer_id=A, producer_epoch=5, coordinator_epoch=2)
        assert log.producers()[0].producer_epoch == 5, "known from the marker alone"
        for epoch, coordinator_epoch, expected in [
            (4, 2, ErrorCode.invalid_producer_epoch),
            (5, 1, ErrorCode.transaction_coordinator_fenced),
        ]:
            with pytest.raises(LogError) as refused:
                append_marker(
                    log,
                    ControlType.ABORT,
                    producer_id=A,
                    producer_epoch=epoch,
                    coordinator_epoch=coordinator_epoch,
                )
            assert refused.value.error_code is expected
        append_marker(log, ControlType.ABORT, producer_id=A, producer_epoch=5, coordinator_epoch=2)
        assert log.log_end_offset == 2, "repeats are harmless"
        with pytest.raises(LogError):
            append(log, a_batch(1, producer_id=A, producer_epoch=5, sequence=3, transactional=True))
        append(log, a_batch(1, producer_id=A, producer_epoch=5, sequence=0, transactional=True))

    def test_a_late_marker_cannot_end_the_next_transaction_where_each_end_raises_the_epoch(
        self, log: PartitionLog
    ) -> None:
        append(log, a_batch(1, producer_id=A, producer_epoch=0, sequence=0, transactional=True))
        append_marker(log, ControlType.COMMIT, producer_id=A, producer_epoch=1, marker_bumps_epoch=True)
        # The same marker again is harmless as long as nothing is open, and refused afterwards.
        append_marker(log, ControlType.COMMIT, producer_id=A, producer_epoch=1, marker_bumps_epoch=True)
        append(log, a_batch(1, producer_id=A, producer_epoch=1, sequence=0, transactional=True))
        with pytest.raises(LogError) as refused:
            append_marker(log, ControlType.COMMIT, producer_id=A, producer_epoch=1, marker_bumps_epoch=True)
        assert refused.value.error_code is ErrorCode.invalid_producer_epoch

    def test_producers_are_described_with_their_open_transactions(self, log: PartitionLog) -> None:
        append(log)
        append(log, a_batch(2, producer_id=A, producer_epoch=1, sequence=0, transactional=True))
        (status,) = log.producers()
        assert (status.producer_id, status.producer_epoch, status.last_sequence) == (A, 1, 1)
        assert (status.last_timestamp_ms, status.coordinator_epoch) == (T + 1, -1)
        assert status.current_txn_start_offset == 1
        append_marker(log, ControlType.COMMIT, producer_id=A, producer_epoch=1, coordinator_epoch=4)
        (status,) = log.producers()
        assert (status.last_sequence, status.coordinator_epoch, status.current_txn_start_offset) == (1, 4, -1)
        append_marker(log, ControlType.COMMIT, producer_id=A, producer_epoch=2, coordinator_epoch=4)
        assert log.producers()[0].last_sequence == -1

    # -- times and epochs

    def test_timestamps_are_found_record_by_record(self, log: PartitionLog) -> None:
        for at in (10, 30, 20):
            append(log, a_batch(timestamps_ms=[at]))
        sync(log)
        for target, expected in [(0, (0, 10)), (10, (0, 10)), (15, (1, 30)), (25, (1, 30)), (31, (-1, -1))]:
            found = log.offset_for_timestamp(target, 3)
            assert (found.offset, found.timestamp_ms) == expected, target
        assert log.offset_for_timestamp(15, 1) == TimestampedOffset(), "a hit above the bound is none"
        assert log.offset_for_max_timestamp() == TimestampedOffset(1, 30, 0)

    def test_a_time_inside_a_compressed_batch_names_the_exact_record(self, log: PartitionLog) -> None:
        append(log, a_batch(timestamps_ms=[100, 200, 300, 400], codec=Codec.ZSTD))
        assert log.offset_for_timestamp(250, 4) == TimestampedOffset(2, 300, 0)
        append(log, a_batch(timestamps_ms=[1, 2, 3], append_time_ms=900))
        assert log.offset_for_timestamp(500, 7) == TimestampedOffset(4, 900, 0)

    def test_lookups_by_time_forget_what_is_deleted(self, open_log: Callable[..., PartitionLog]) -> None:
        log = open_log(TopicConfig(segment_bytes=1024, index_interval_bytes=100))
        times = [50, 900, 40, 30, *range(100, 140)]
        for at in times:
            append(log, a_batch(timestamps_ms=[at]))
        sync(log)
        assert log.offset_for_max_timestamp().offset == 1
        log.delete_records(2)
        assert log.offset_for_max_timestamp() == TimestampedOffset(43, 139, 0)
        assert log.offset_for_timestamp(35, 44) == TimestampedOffset(2, 40, 0)
        log.delete_records(44)
        assert log.offset_for_max_timestamp() == TimestampedOffset()
        assert log.offset_for_timestamp(0, 44) == TimestampedOffset()

    def test_epochs_tell_where_they_ended(
        self, store: LogStore, open_log: Callable[..., PartitionLog]
    ) -> None:
        log = open_log(leader_epoch=0)
        append(log, a_batch(100))
        log.close()
        log = open_log(leader_epoch=3)
        append(log, a_batch(50))
        assert log.end_of_epoch(0) == log.end_of_epoch(1) == log.end_of_epoch(2) == EpochEnd(0, 100)
        assert log.end_of_epoch(3) == EpochEnd(3, 150)
        assert log.end_of_epoch(4) == log.end_of_epoch(-1) == EpochEnd()
        assert log.earliest() == TimestampedOffset(0, -1, 0)
        sync(log)
        log.delete_records(120)
        assert log.earliest() == TimestampedOffset(120, -1, 3)
        assert log.end_of_epoch(0) == EpochEnd(0, 120)

    def test_a_log_is_not_taken_at_an_older_epoch(self, open_log: Callable[..., PartitionLog]) -> None:
        log = open_log(leader_epoch=5)
        append(log)
        log.close()
        with pytest.raises(LogError) as refused:
            open_log(leader_epoch=4)
        assert refused.value.error_code is ErrorCode.fenced_leader_epoch

    # -- cutting

    def test_deleting_records_raises_the_start_and_never_lowers_it(self, log: PartitionLog) -> None:
        moves: list[int] = []
        for _ in range(10):
            append(log)
        sync(log)
        log.on_change = lambda: moves.append(log.log_start_offset)
        assert log.delete_records(5) == 5
        assert log.delete_records(3) == 5
        assert log.delete_records(-1) == 10
        assert moves == [5, 10]
        for bad in (11, -2):
            with pytest.raises(LogError) as refused:
                log.delete_records(bad)
            assert refused.value.error_code is ErrorCode.offset_out_of_range

    def test_deleting_past_the_start_of_an_open_transaction_frees_the_stable_offset_so_far(
        self, log: PartitionLog
    ) -> None:
        append(log, a_batch(4, producer_id=A, producer_epoch=0, sequence=0, transactional=True))
        append(log, a_batch(4))
        sync(log)
        log.delete_records(2)
        assert log.last_stable_offset == 2

    @pytest.mark.parametrize(
        ("to_offset", "expected"),
        [(0, 0), (2, 2), (5, 4), (4, 4), (97, 96), (99, 98), (100, 100), (150, 100)],
    )
    def test_a_cut_takes_whole_batches(
        self, open_log: Callable[..., PartitionLog], to_offset: int, expected: int
    ) -> None:
        log = open_log(TopicConfig(segment_bytes=1024, index_interval_bytes=200))
        for _ in range(50):
            append(log, a_batch(2))
        sync(log)
        whole = read_all(log)
        log.truncate(to_offset)
        assert log.log_end_offset == log.high_watermark == expected
        assert read_all(log) == whole[: expected // 2]
        append(log, a_batch(2))
        sync(log)
        assert log.log_end_offset == expected + 2
        assert read_all(log)[:-1] == whole[: expected // 2]

    def test_a_cut_takes_markers_and_what_they_decided_back(self, log: PartitionLog) -> None:
        append(log, a_batch(2, producer_id=A, producer_epoch=0, sequence=0, transactional=True))
        append_marker(log, ControlType.ABORT, producer_id=A)
        sync(log)
        assert log.last_stable_offset == 3
        log.truncate(2)
        assert log.last_stable_offset == 0
        assert log.aborted_transactions(0, 2) == []
        append_marker(log, ControlType.COMMIT, producer_id=A)
        sync(log)
        assert log.last_stable_offset == 3
        assert log.aborted_transactions(0, 3) == []

    # -- retention

    def test_old_segments_go_by_time_even_the_active_one(
        self, open_log: Callable[..., PartitionLog], clock: ManualClock
    ) -> None:
        log = open_log(TopicConfig(retention_ms=1000))
        append(log, a_batch(3, timestamps_ms=[T, T, T]))
        sync(log)
        assert log.delete_old_segments(0, T + 1000) == 0
        assert log.delete_old_segments(0, T + 1001) == 1
        assert log.log_start_offset == log.log_end_offset == log.high_watermark == 3
        assert append(log).base_offset == 3
        assert log.delete_old_segments(0, T + 500) == 0

    def test_old_segments_go_by_size_while_enough_stays(self, open_log: Callable[..., PartitionLog]) -> None:
        log = open_log(TopicConfig(segment_bytes=1024, retention_bytes=1000))
        for _ in range(3):
            append(log, a_batch(value=bytes(540)))  # one to a segment
        sync(log)
        assert log.size_bytes > 1800
        assert log.delete_old_segments(0, T) == 1
        assert log.log_start_offset == 1

    def test_a_record_of_the_far_future_stays_by_time_but_not_by_size(
        self, open_log: Callable[..., PartitionLog]
    ) -> None:
        log = open_log(TopicConfig(segment_bytes=1024, retention_ms=1000))
        append(log, a_batch(timestamps_ms=[4_070_908_800_000], value=bytes(700)))
        append(log, a_batch(value=bytes(700)))
        sync(log)
        assert log.delete_old_segments(0, T + 5000) == 0
        log.config = TopicConfig(segment_bytes=1024, retention_ms=-1, retention_bytes=700)
        assert log.delete_old_segments(0, T + 5000) == 1

    def test_what_is_below_the_start_goes_under_any_policy(
        self, open_log: Callable[..., PartitionLog]
    ) -> None:
        log = open_log(TopicConfig(segment_bytes=1024, cleanup_policy=frozenset({"compact"}), retention_ms=1))
        for _ in range(4):
            append(log, a_batch(value=bytes(700)))
        sync(log)
        assert log.delete_old_segments(0, T + 10**9) == 0
        log.delete_records(3)
        assert log.delete_old_segments(0, T + 10**9) == 3

    def test_nothing_goes_that_readers_could_not_see_yet(self, open_log: Callable[..., PartitionLog]) -> None:
        log = open_log(TopicConfig(segment_bytes=1024, retention_ms=1))
        for _ in range(3):
            append(log, a_batch(value=bytes(700)))
        if self.flush_on_commit:
            assert log.delete_old_segments(0, T + 10**9) == 0
        sync(log)
        assert log.delete_old_segments(0, T + 10**9) == 3

    # -- the store

    def test_logs_are_found_deleted_and_made_anew(
        self, store: LogStore, open_log: Callable[..., PartitionLog], clock: ManualClock
    ) -> None:
        log = open_log()
        append(log)
        store.open("a-b", b"\1" * 16, 12, leader_epoch=0, config=TopicConfig())
        assert sorted(store.existing()) == [("a-b", 12, b"\1" * 16), ("t", 0, TOPIC_ID)]
        store.delete("t", 0)
        assert list(store.existing()) == [("a-b", 12, b"\1" * 16)]
        with pytest.raises(LogError):
            append(log)
        again = store.open("t", b"\2" * 16, 0, leader_epoch=0, config=TopicConfig())
        assert again.log_end_offset == 0
        clock.advance(60_000)
        remove = store.start_housekeeping(clock.now_ms())
        assert remove is not None
        remove()
        assert sorted(store.existing()) == [("a-b", 12, b"\1" * 16), ("t", 0, b"\2" * 16)]

    def test_another_topics_id_is_refused(self, store: LogStore, log: PartitionLog) -> None:
        log.close()
        with pytest.raises(LogError) as refused:
            store.open("t", b"\7" * 16, 0, leader_epoch=1, config=TopicConfig())
        assert refused.value.error_code is ErrorCode.inconsistent_topic_id

    def test_a_log_that_was_closed_comes_back_as_it_was(
        self, store: LogStore, open_log: Callable[..., PartitionLog]
    ) -> None:
        log = open_log(TopicConfig(segment_bytes=1024))
        for n in range(40):
            append(log, a_batch(2, producer_id=A, producer_epoch=0, sequence=2 * n))
        append(log, a_batch(1, producer_id=B, producer_epoch=0, sequence=0, transactional=True))
        sync(log)
        log.delete_records(3)
        whole, producers = read_all(log), log.producers()
        store.start_checkpoint()()
        log.close()
        again = open_log(TopicConfig(segment_bytes=1024), leader_epoch=1)
        assert (again.log_start_offset, again.log_end_offset, again.high_watermark) == (3, 81, 81)
        assert again.last_stable_offset == 80
        assert read_all(again) == whole
        assert again.producers() == producers
        assert append(again, a_batch(2, producer_id=A, producer_epoch=0, sequence=78)).is_duplicate
        append(again, a_batch(1, producer_id=A, producer_epoch=0, sequence=80))

    def test_a_closed_log_takes_nothing_more(self, log: PartitionLog) -> None:
        append(log)
        log.close()
        with pytest.raises(LogError):
            append(log)
