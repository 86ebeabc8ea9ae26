"""What every log must know of its past, and how it lets go of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from klamm.clock import ManualClock
from klamm.protocol.errors import ErrorCode
from klamm.records.compression import Codec
from klamm.records.markers import ControlType
from klamm.storage.log import (
    EngineLog,
    EpochEnd,
    LogError,
    LogStore,
    TimestampedOffset,
)
from klamm.storage.topic_config import TopicConfig
from unit.storage.engine_contract import A, B, EngineContract
from unit.storage.log_samples import (
    TOPIC_ID,
    T,
    a_batch,
    append,
    append_marker,
    read_all,
    sync,
)


class HistoryContract(EngineContract):
    """Times, epochs, cuts, retention, and logs that come and go."""

    # -- times and epochs

    def test_timestamps_are_found_record_by_record(self, log: EngineLog) -> None:
        for at in (10, 30, 20):
            append(log, a_batch(timestamps_ms=[at]))
        sync(log)
        for target, expected in [(0, (0, 10)), (10, (0, 10)), (15, (1, 30)), (25, (1, 30)), (31, (-1, -1))]:
            found = log.offset_for_timestamp(target, 3)
            assert (found.offset, found.timestamp_ms) == expected, target
        assert log.offset_for_timestamp(15, 1) == TimestampedOffset(), "a hit above the bound is none"
        assert log.offset_for_max_timestamp() == TimestampedOffset(1, 30, 0)

    def test_a_time_inside_a_compressed_batch_names_the_exact_record(self, log: EngineLog) -> None:
        append(log, a_batch(timestamps_ms=[100, 200, 300, 400], codec=Codec.ZSTD))
        assert log.offset_for_timestamp(250, 4) == TimestampedOffset(2, 300, 0)
        append(log, a_batch(timestamps_ms=[1, 2, 3], append_time_ms=900))
        assert log.offset_for_timestamp(500, 7) == TimestampedOffset(4, 900, 0)

    def test_without_dated_records_the_first_has_the_largest_timestamp(self, log: EngineLog) -> None:
        assert log.offset_for_max_timestamp() == TimestampedOffset()
        for _ in range(3):
            append(log, a_batch(timestamps_ms=[-1, -1]))
        assert log.offset_for_max_timestamp() == TimestampedOffset(0, -1, 0)
        sync(log)
        log.delete_records(3)
        assert log.offset_for_max_timestamp() == TimestampedOffset(3, -1, 0)
        append(log, a_batch(timestamps_ms=[5]))
        assert log.offset_for_max_timestamp() == TimestampedOffset(6, 5, 0)

    def test_lookups_by_time_forget_what_is_deleted(self, open_log: Callable[..., EngineLog]) -> None:
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

    def test_epochs_tell_where_they_ended(self, store: LogStore, open_log: Callable[..., EngineLog]) -> None:
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

    def test_a_log_is_not_taken_at_an_older_epoch(self, open_log: Callable[..., EngineLog]) -> None:
        log = open_log(leader_epoch=5)
        append(log)
        log.close()
        with pytest.raises(LogError) as refused:
            open_log(leader_epoch=4)
        assert refused.value.error_code is ErrorCode.fenced_leader_epoch

    # -- cutting

    def test_deleting_records_raises_the_start_and_never_lowers_it(self, log: EngineLog) -> None:
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
        self, log: EngineLog
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
        self, open_log: Callable[..., EngineLog], to_offset: int, expected: int
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

    def test_a_cut_takes_markers_and_what_they_decided_back(self, log: EngineLog) -> None:
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
        self, open_log: Callable[..., EngineLog], clock: ManualClock
    ) -> None:
        log = open_log(TopicConfig(retention_ms=1000))
        append(log, a_batch(3, timestamps_ms=[T, T, T]))
        sync(log)
        assert log.delete_old_segments(0, T + 1000) == 0
        assert log.delete_old_segments(0, T + 1001) == 1
        assert log.log_start_offset == log.log_end_offset == log.high_watermark == 3
        assert append(log).base_offset == 3
        assert log.delete_old_segments(0, T + 500) == 0

    def test_old_segments_go_by_size_while_enough_stays(self, open_log: Callable[..., EngineLog]) -> None:
        log = open_log(TopicConfig(segment_bytes=1024, retention_bytes=1000))
        for _ in range(3):
            append(log, a_batch(value=bytes(540)))  # one to a segment
        sync(log)
        assert log.size_bytes > 1800
        assert log.delete_old_segments(0, T) == 1
        assert log.log_start_offset == 1

    def test_a_record_of_the_far_future_stays_by_time_but_not_by_size(
        self, open_log: Callable[..., EngineLog]
    ) -> None:
        log = open_log(TopicConfig(segment_bytes=1024, retention_ms=1000))
        append(log, a_batch(timestamps_ms=[4_070_908_800_000], value=bytes(700)))
        append(log, a_batch(value=bytes(700)))
        sync(log)
        assert log.delete_old_segments(0, T + 5000) == 0
        log.config = TopicConfig(segment_bytes=1024, retention_ms=-1, retention_bytes=700)
        assert log.delete_old_segments(0, T + 5000) == 1

    def test_what_is_below_the_start_goes_under_any_policy(self, open_log: Callable[..., EngineLog]) -> None:
        log = open_log(TopicConfig(segment_bytes=1024, cleanup_policy=frozenset({"compact"}), retention_ms=1))
        for _ in range(4):
            append(log, a_batch(value=bytes(700)))
        sync(log)
        assert log.delete_old_segments(0, T + 10**9) == 0
        log.delete_records(3)
        assert log.delete_old_segments(0, T + 10**9) == 3

    def test_nothing_goes_that_readers_could_not_see_yet(self, open_log: Callable[..., EngineLog]) -> None:
        log = open_log(TopicConfig(segment_bytes=1024, retention_ms=1))
        for _ in range(3):
            append(log, a_batch(value=bytes(700)))
        if self.flush_on_commit:
            assert log.delete_old_segments(0, T + 10**9) == 0
        sync(log)
        assert log.delete_old_segments(0, T + 10**9) == 3

    # -- the store

    def test_logs_are_found_deleted_and_made_anew(
        self, store: LogStore, open_log: Callable[..., EngineLog], clock: ManualClock
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

    def test_another_topics_id_is_refused(self, store: LogStore, log: EngineLog) -> None:
        log.close()
        with pytest.raises(LogError) as refused:
            store.open("t", b"\7" * 16, 0, leader_epoch=1, config=TopicConfig())
        assert refused.value.error_code is ErrorCode.inconsistent_topic_id

    def test_a_log_that_was_closed_comes_back_as_it_was(
        self, store: LogStore, open_log: Callable[..., EngineLog]
    ) -> None:
        # scenarios 16 and 89 of transactions
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

    def test_the_next_leader_answers_a_duplicate_with_the_offset_of_its_original(
        self, open_log: Callable[..., EngineLog]
    ) -> None:
        # scenario 19 of transactions
        log = open_log(leader_epoch=3)
        for n in range(3):
            append(log, a_batch(2, producer_id=A, producer_epoch=0, sequence=2 * n))
        sync(log)
        log.close()
        leader = open_log(leader_epoch=4)
        again = append(leader, a_batch(2, producer_id=A, producer_epoch=0, sequence=4))
        assert (again.base_offset, again.last_offset, again.is_duplicate) == (4, 5, True)
        assert append(leader, a_batch(1, producer_id=A, producer_epoch=0, sequence=6)).base_offset == 6
        assert leader.log_end_offset == 7

    def test_a_closed_log_takes_nothing_more(self, log: EngineLog) -> None:
        append(log)
        log.close()
        with pytest.raises(LogError):
            append(log)
